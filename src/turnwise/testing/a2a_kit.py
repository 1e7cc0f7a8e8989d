"""The app that A2A's conformance kit (a2a-tck) is run against.

The ids of the kit's messages begin with what it wants to be shown, such as `tck-artifact-file-url-1f0c3a77`. Each of these
beginnings is the name of an agent here, which shows that by what every agent has; a selector chooses by the id. What begins
otherwise is answered by the root.
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
from turnwise.stores.artifacts.in_memory import InMemoryArtifactStore
from turnwise.stores.sql import SqlSessionStore

APP = "a2a-kit"
STORE = "sqlite://"
SECONDS = 2.0
"""The kit's own TCK_STREAMING_TIMEOUT, by which it measures what takes a while."""
MOMENT = 0.1
"""Between two pieces, so that they are told one by one."""
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
    """Gives a text."""
    return "Generated text content"


@agent(name="tck-artifact-file")
async def _artifact_file(context: AgentContext) -> Content:
    """Gives a file that it keeps among the session's artifacts."""
    saved = await context.artifacts.save(FILE_NAME, FILE, mime_type=FILE_TYPE)
    return Content(parts=(ArtifactPart(name=FILE_NAME, version=saved.version, mime_type=FILE_TYPE, title=FILE_NAME),))


@agent(name="tck-artifact-file-url")
def _artifact_file_url() -> Content:
    """Gives a file that stands somewhere else."""
    return Content(parts=(ArtifactPart(name=FILE_URL, mime_type=FILE_TYPE, title=FILE_NAME),))


@agent(name="tck-artifact-data")
def _artifact_data() -> dict[str, object]:
    """Gives data."""
    return {"key": "value", "count": 42}


@agent(name="tck-message-response", tags=WITHOUT_TASK)
def _message_response() -> str:
    """Answers without a task."""
    return "Direct message response"


@agent(name="tck-input-required")
async def _input_required(context: AgentContext) -> str:
    """Asks, and completes the task with the answer."""
    answer = await context.ask("What else do you want to say?")
    return f"You said: {answer.text}"


@agent(name=REFUSED)
def _reject() -> str:
    """Gives an answer that a guardrail does not let through."""
    return "This is not to be said."


@agent(name="tck-stream-001")
async def _stream_hello(context: AgentContext) -> None:
    """Streams a text."""
    async with context.stream() as out:
        await out.write("Stream hello ")
        await out.write("from TCK")


@agent(name="tck-stream-002", tags=WITHOUT_TASK)
def _stream_message() -> str:
    """Answers without a task, when it is to be streamed as well."""
    return "Stream message-only response"


@agent(name="tck-stream-003")
async def _stream_lifecycle(context: AgentContext) -> str:
    """Says something, and something more."""
    await context.say("Stream task lifecycle")
    return "Its end"


@agent(name="tck-stream-ordering-001")
async def _stream_ordering(context: AgentContext) -> str:
    """Says one thing after the other."""
    for count in ("One", "Two", "Three"):
        await context.say(count)
    return "Ordered output"


@agent(name="tck-stream-artifact-text")
def _stream_text() -> str:
    """Gives a text to who streams."""
    return "Streamed text content"


@agent(name="tck-stream-artifact-file")
def _stream_file() -> Content:
    """Gives a file to who streams."""
    return Content(parts=(BlobPart(data=FILE, mime_type=FILE_TYPE, name=FILE_NAME),))


def kit_app(*, hooks: Sequence[Hooks] = (), pause: Pause = asyncio.sleep) -> Runner:
    """The runner of that app, in memory. pause: waits so many seconds, for those that are to take a while."""
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
    """How its gateway is to stand: for everybody on this machine, as often as they like, and who is notified is there, too."""
    spoken = A2aConfig(on=True, description="Shows what A2A's conformance kit wants to see.", private_pushes=True)
    limits = CallerLimits(requests=1_000_000, bytes=1_000_000_000_000, runs=10_000)
    return GatewayConfig(limits=limits, protocols=Protocols(a2a=spoken))


class ByMessageId:
    """Chooses the agent with the longest name that the message's id begins with."""

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
    """A guardrail that lets nothing of one agent through. It goes by the name alone, so that nothing is held back."""

    name = "refusing"
    reach = 0

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        return GuardrailVerdict("block", reason="rejected") if place == "answer" and agent == REFUSED else ALLOW


def _root(pause: Pause) -> FunctionAgent:
    """The root, with all the others below it."""

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
