"""How much is too much, how one message is to be run, and how one process takes its part."""

from typing import Literal

from pydantic import Field

from turnwise.facts.fact import Fact


class Limits(Fact):
    """Bounds on what users and agents may cause. Sizes are bytes, times seconds.

    transfers: hand-overs for one message. turns: turns of a team for one message. events: stored events of one invocation.
    answer_bytes: one event of an agent: text, data and recorded steps, blobs aside. invocation_bytes: all of those in one
    invocation.
    queue: messages waiting in one session. message_bytes: text and data of one message, blobs aside. blob_bytes: one blob
    or artifact. parts: parts of one content. tools: tools that a caller offers with one message. state_bytes: one state value
    as JSON. history_events: one window of history.
    invocation_seconds: one message until its answer. grace_seconds: what an agent that is told to stop may still take.
    guardrail_seconds: one check by a guardrail. steps: calls of a model in one run of an agent. tool_seconds: one tool call.
    wait_seconds: how long a wait stays open. waits: open waits of one session. call_depth: calls in calls. attempts: how
    often one message is tried when the processes that answer it die.
    """

    transfers: int = Field(default=8, ge=0)
    turns: int = Field(default=12, ge=1)
    events: int = Field(default=1_000, ge=1)
    answer_bytes: int = Field(default=2 * 1024 * 1024, ge=1)
    invocation_bytes: int = Field(default=64 * 1024 * 1024, ge=1)
    queue: int = Field(default=100, ge=0)
    message_bytes: int = Field(default=256 * 1024, ge=1)
    blob_bytes: int = Field(default=20 * 1024 * 1024, ge=1)
    parts: int = Field(default=100, ge=1)
    tools: int = Field(default=64, ge=0)
    state_bytes: int = Field(default=64 * 1024, ge=1)
    history_events: int = Field(default=1_000, ge=1)
    invocation_seconds: float = Field(default=300.0, gt=0)
    grace_seconds: float = Field(default=5.0, ge=0)
    guardrail_seconds: float = Field(default=10.0, gt=0)
    steps: int = Field(default=25, ge=1)
    tool_seconds: float = Field(default=60.0, gt=0)
    wait_seconds: float = Field(default=7 * 24 * 3600.0, gt=0)
    waits: int = Field(default=20, ge=1)
    call_depth: int = Field(default=8, ge=1)
    attempts: int = Field(default=3, ge=1)


class RunConfig(Fact):
    """How one message is to be run; an agent reads it in its context (behaviour A43).

    streaming: whether partial events are wanted. save_input_blobs_as_artifacts: behaviour A26. when_busy: what to do when
    the session is answering another message. when_reader_leaves: whether the run goes on when its caller stops reading.
    deadline_seconds: overrides limits.invocation_seconds. create_session: make a missing session instead of refusing.
    """

    streaming: bool = True
    save_input_blobs_as_artifacts: bool = False
    when_busy: Literal["queue", "reject", "interrupt"] = "queue"
    when_reader_leaves: Literal["continue", "cancel"] = "continue"
    deadline_seconds: float | None = Field(default=None, gt=0)
    create_session: bool = True
    limits: Limits = Limits()


class ProcessConfig(Fact):
    """How one process shares the work with others; times are seconds.

    lease_seconds: how long a session stays claimed by a process that died, or stands still; it is renewed three times in
    that time. concurrency: how many messages are answered at once, the others wait their turn in the inbox.
    recovery_seconds: how often a worker looks for what others left behind. unknown_agent_seconds: how long work for an agent
    that this process does not know is left to processes that know it; 0 = not at all.
    job_retry_seconds: how long a background job that failed rests before it is tried again.
    """

    lease_seconds: float = Field(default=15.0, gt=0, allow_inf_nan=False)
    concurrency: int = Field(default=100, ge=1)
    recovery_seconds: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    unknown_agent_seconds: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    job_retry_seconds: float = Field(default=5.0, ge=0, allow_inf_nan=False)
