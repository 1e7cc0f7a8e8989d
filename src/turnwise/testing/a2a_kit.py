"""The app under test for the A2A conformance kit (a2a-tck).

The kit's message ids begin with the name of a scenario, such as `tck-artifact-file-url-1f0c3a77`. Each scenario is an agent of
that name, which uses only what every agent has. A selector chooses the agent by the message id; the root answers all other
messages.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from turnwise.agents.function import FunctionAgent, agent
from turnwise.facts.content import ArtifactPart, BlobPart, Content
from turnwise.facts.gateway import A2aConfig, CallerLimits, GatewayConfig, Protocols
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.context import AgentContext
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place
from turnwise.ports.hooks import Hooks
from turnwise.ports.selector import SelectionRequest
from turnwise.runner import Runner
from turnwise.selection.policy import PolicySpec, StageSpec
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.stores.sql import SqlSessionStore

APP = "a2a-kit"
STORE = "sqlite://"
SECONDS = 2.0
"""The kit's TCK_STREAMING_TIMEOUT, which it uses to measure slow answers."""
MOMENT = 0.1
"""Pause between two pieces, so that they are sent separately."""
WITHOUT_TASK = ("a2a:message",)
REFUSED = "tck-reject-task"
FILE, FILE_NAME, FILE_TYPE, FILE_URL = b"tck", "output.txt", "text/plain", "https://example.com/output.txt"

Pause = Callable[[float], Awaitable[None]]


@agent(name="tck-complete-task")
def _complete() -> str:
    """Completes the task."""
    return "Hello from TCK"


@agent(name="tck-artifact-text")
def _artifact_text() -> str:
    """Returns text."""
    return "Generated text content"


@agent(name="tck-artifact-file")
async def _artifact_file(context: AgentContext) -> Content:
    """Returns a file that it saves as an artifact of the session."""
    saved = await context.artifacts.save(FILE_NAME, FILE, mime_type=FILE_TYPE)
    return Content(parts=(ArtifactPart(name=FILE_NAME, version=saved.version, mime_type=FILE_TYPE, title=FILE_NAME),))


@agent(name="tck-artifact-file-url")
def _artifact_file_url() -> Content:
    """Returns a file by its URL."""
    return Content(parts=(ArtifactPart(name=FILE_URL, mime_type=FILE_TYPE, title=FILE_NAME),))


@agent(name="tck-artifact-data")
def _artifact_data() -> dict[str, object]:
    """Returns data."""
    return {"key": "value", "count": 42}


@agent(name="tck-message-response", tags=WITHOUT_TASK)
def _message_response() -> str:
    """Answers without a task."""
    return "Direct message response"


@agent(name="tck-input-required")
async def _input_required(context: AgentContext) -> str:
    """Asks a question, and completes the task with the answer."""
    answer = await context.ask("What else do you want to say?")
    return f"You said: {answer.text}"


@agent(name=REFUSED)
def _reject() -> str:
    """Returns an answer that a guardrail blocks."""
    return "This is not to be said."


@agent(name="tck-stream-001")
async def _stream_hello(context: AgentContext) -> None:
    """Streams text."""
    async with context.stream() as out:
        await out.write("Stream hello ")
        await out.write("from TCK")


@agent(name="tck-stream-002", tags=WITHOUT_TASK)
def _stream_message() -> str:
    """Answers without a task, also when the client streams."""
    return "Stream message-only response"


@agent(name="tck-stream-003")
async def _stream_lifecycle(context: AgentContext) -> str:
    """Sends two messages."""
    await context.say("Stream task lifecycle")
    return "Its end"


@agent(name="tck-stream-ordering-001")
async def _stream_ordering(context: AgentContext) -> str:
    """Sends several messages in order."""
    for count in ("One", "Two", "Three"):
        await context.say(count)
    return "Ordered output"


@agent(name="tck-stream-artifact-text")
def _stream_text() -> str:
    """Returns text to a streaming client."""
    return "Streamed text content"


@agent(name="tck-stream-artifact-file")
def _stream_file() -> Content:
    """Returns a file to a streaming client."""
    return Content(parts=(BlobPart(data=FILE, mime_type=FILE_TYPE, name=FILE_NAME),))


def kit_app(*, hooks: Sequence[Hooks] = (), pause: Pause = asyncio.sleep) -> Runner:
    """Builds the app's runner, with stores in memory.

    Args:
        pause: waits that many seconds; used by the agents that take a while.
    """
    policy = PolicySpec(name=APP, stages=(StageSpec(selector="message-id"),))
    return Runner(
        _root(pause),
        store=SqlSessionStore(STORE),
        app=APP,
        policy=policy,
        custom_selectors={"message-id": ByMessageId},
        artifacts=InMemoryArtifactStore(),
        guardrails=[Refusing()],
        hooks=hooks,
    )


def kit_gateway() -> GatewayConfig:
    """The gateway's configuration: open to this machine, with practically no limits, and with notifications to private
    addresses.
    """
    spoken = A2aConfig(on=True, description="Shows what A2A's conformance kit wants to see.", private_pushes=True)
    limits = CallerLimits(requests=1_000_000, bytes=1_000_000_000_000, runs=10_000)
    return GatewayConfig(limits=limits, protocols=Protocols(a2a=spoken))


class ByMessageId:
    """Chooses the agent with the longest name that the message id begins with."""

    def __init__(self, tree: AgentTree) -> None:
        self.name = "message-id"

    async def select(self, request: SelectionRequest) -> Verdict:
        id_ = request.message_id or ""
        meant = max((name for name in request.eligible if id_.startswith(name)), key=len, default=None)
        if meant is None:
            return Verdict(selector=self.name, reason="The message's id begins with the name of no agent.")
        reason = f"The message's id begins with {meant}."
        return Verdict(selector=self.name, outcome="chosen", agent=meant, method=self.name, confidence=1.0, reason=reason)


class Refusing:
    """A guardrail that blocks every answer of one agent. It looks at the name only, so streams are not delayed."""

    name = "refusing"
    reach = 0

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        return GuardrailVerdict("block", reason="rejected") if place == "answer" and agent == REFUSED else ALLOW


def _root(pause: Pause) -> FunctionAgent:
    """Builds the root with all other agents below it."""

    @agent(name="tck-delayed-complete")
    async def delayed() -> str:
        """Works for a while, then completes the task."""
        await pause(SECONDS)
        return "Done after delay"

    @agent(name="tck-stream-artifact-chunked")
    async def chunked(context: AgentContext) -> None:
        """Gives a text in two pieces."""
        async with context.stream() as out:
            await out.write("chunk-1 ")
            await pause(MOMENT)
            await out.write("chunk-2")

    @agent(name="test-resubscribe-message-id")
    async def resubscribed(context: AgentContext) -> None:
        """Works for so long that one can come again."""
        async with context.stream() as out:
            await out.write("Begun, ")
            await pause(2 * SECONDS)
            await out.write("and done")

    shown = (
        *(_complete, delayed, _artifact_text, _artifact_file, _artifact_file_url, _artifact_data, _message_response),
        *(_input_required, _reject, _stream_hello, _stream_message, _stream_lifecycle, _stream_ordering, _stream_text),
        *(_stream_file, chunked, resubscribed),
    )

    @agent(name="kit", children=shown)
    def root(message: str) -> str:
        """Answers what nothing in particular is wanted of."""
        return f"You said: {message}"

    return root
