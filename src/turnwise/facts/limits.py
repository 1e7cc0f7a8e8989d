"""Limits, and the configuration of one run and of one process."""

from typing import Literal

from pydantic import Field

from turnwise.facts.content import Texts
from turnwise.facts.fact import Fact
from turnwise.facts.memory import ENTRIES


class Limits(Fact):
    """Limits on users and agents. Sizes are in bytes, times in seconds."""

    transfers: int = Field(default=8, ge=0)
    """Transfers per message."""
    turns: int = Field(default=12, ge=1)
    """Turns of a team per message."""
    events: int = Field(default=1_000, ge=1)
    """Stored events per invocation."""
    answer_bytes: int = Field(default=2 * 1024 * 1024, ge=1)
    """One event of an agent: text, data and recorded steps, without blobs."""
    invocation_bytes: int = Field(default=64 * 1024 * 1024, ge=1)
    """All events of agents in one invocation."""
    queue: int = Field(default=100, ge=0)
    """Waiting messages per session."""
    message_bytes: int = Field(default=256 * 1024, ge=1)
    """Text and data of one message, without blobs."""
    blob_bytes: int = Field(default=20 * 1024 * 1024, ge=1)
    """One blob or artifact."""
    parts: int = Field(default=100, ge=1)
    """Parts of one content."""
    tools: int = Field(default=64, ge=0)
    """Tools that a caller offers with one message."""
    state_bytes: int = Field(default=64 * 1024, ge=1)
    """One state value as JSON."""
    session_state_bytes: int = Field(default=1024 * 1024, ge=1)
    """All state of one session as JSON, without the app's and the user's."""
    user_state_bytes: int = Field(default=256 * 1024, ge=1)
    """All `user:` state of one user as JSON. Every turn reads it."""
    session_events: int = Field(default=100_000, ge=1)
    """Events in one session's log. Checked before each message."""
    session_bytes: int = Field(default=256 * 1024 * 1024, ge=1)
    """One session's log. Checked before each message."""
    sessions: int = Field(default=10_000, ge=1)
    """Sessions of one user."""
    forks: int = Field(default=1_000, ge=0)
    """Sessions of one user that are forks."""
    memory_entries: int = Field(default=ENTRIES, ge=0, le=ENTRIES)
    """Entries in one user's memory."""
    user_bytes: int = Field(default=1024 * 1024 * 1024, ge=1)
    """The logs, the memory and the artifacts of one user together."""
    history_events: int = Field(default=1_000, ge=1)
    """Events in one window of history."""
    invocation_seconds: float = Field(default=300.0, gt=0)
    """From a message to its answer."""
    grace_seconds: float = Field(default=5.0, ge=0)
    """How long a cancelled agent may take to stop."""
    guardrail_seconds: float = Field(default=10.0, gt=0)
    """One check by a guardrail."""
    steps: int = Field(default=25, ge=1)
    """Model calls in one run of an agent."""
    tool_seconds: float = Field(default=60.0, gt=0)
    """One tool call."""
    wait_seconds: float = Field(default=7 * 24 * 3600.0, gt=0)
    """How long a wait stays open."""
    waits: int = Field(default=20, ge=1)
    """Open waits per session."""
    call_depth: int = Field(default=8, ge=1)
    """Nesting of calls between agents."""
    attempts: int = Field(default=3, ge=1)
    """Attempts per message when its processes die."""


class RunConfig(Fact):
    """The configuration of one run; agents can read it in their context (behaviour A43)."""

    streaming: bool = True
    """True to emit partial events."""
    save_input_blobs_as_artifacts: bool = False
    """True to save the message's blobs as artifacts (behaviour A26)."""
    when_busy: Literal["queue", "reject", "interrupt"] = "queue"
    """The rule for a session that is answering another message."""
    when_reader_leaves: Literal["continue", "cancel"] = "continue"
    """The effect on the run when its caller stops reading."""
    deadline_seconds: float | None = Field(default=None, gt=0)
    """Overrides `limits.invocation_seconds`."""
    create_session: bool = True
    """True to create a missing session instead of refusing the message."""
    limit_text: Texts | None = None
    """The text for the user when a limit ends the answer, also by language; None = the technical cause."""
    limits: Limits = Limits()


class ProcessConfig(Fact):
    """How one process shares work with other processes. Times are in seconds."""

    lease_seconds: float = Field(default=3.0, gt=0, allow_inf_nan=False)
    """A process counts as dead when its heartbeat is older. Others may then take its sessions."""
    concurrency: int = Field(default=100, ge=1)
    """The number of messages answered at once. Other messages wait in the inbox."""
    backlog: int = Field(default=5_000, ge=1)
    """The number of messages that this process accepts beyond those, in all sessions together. Further ones are refused.

    One user with many gets no more than the room that is left, so about half of it.
    """
    recovery_seconds: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """How often a worker looks for abandoned work."""
    unknown_agent_seconds: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    """How long work for an unknown agent is left to processes that know it; 0 means not at all."""
    job_retry_seconds: float = Field(default=5.0, ge=0, allow_inf_nan=False)
    """The pause before a failed background job is retried."""
    rest_seconds: float = Field(default=30.0, ge=0, allow_inf_nan=False)
    """How long an agent rests at first, when its surroundings fail for several users; 0 means that agents never rest."""
