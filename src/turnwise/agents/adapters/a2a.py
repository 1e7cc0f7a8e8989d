"""Remote agents that speak A2A (agent to agent)."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx
import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from turnwise.agents.adapters.turn import (
    HISTORY,
    PieceWriter,
    ResumedRun,
    TurnAnswer,
    new_message,
    resolved,
    take_turn,
    usable_parts,
)
from turnwise.agents.adapters.wrap import card_of, error_text, model_error
from turnwise.agents.members import members_of
from turnwise.facts.content import BlobPart, Content, DataPart, Part, TextPart
from turnwise.facts.errors import AgentDefinitionError, AgentFailed, MissingExtra, ModelUnavailable, TurnwiseError
from turnwise.facts.events import Event
from turnwise.facts.limits import Limits
from turnwise.models.per_loop import loop_local
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.transcript.view import Budget

if TYPE_CHECKING:
    import httpx
    from a2a import types as theirs
    from a2a.client import Client, ClientCallContext


def bounded_client(most: int) -> "httpx.AsyncClient":
    """A client that follows no redirects, and ends an answer after `most` bytes, or one that is packed, with an error of its
    own (httpx.RemoteProtocolError)."""
    import httpx

    class Counted(httpx.AsyncByteStream):
        def __init__(self, stream: httpx.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            left = most
            async for piece in self._stream:
                left -= len(piece)
                if left < 0:
                    raise httpx.RemoteProtocolError(f"The answer is longer than {most:,} bytes.")
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    class Bounded(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = Counted(response.stream)
            if response.headers.get("content-encoding", "identity") != "identity":
                await response.aclose()
                raise httpx.RemoteProtocolError("The answer is packed, though it was not to be.")
            return response

    return httpx.AsyncClient(transport=Bounded(), headers={"Accept-Encoding": "identity"})


SECONDS = 120.0
"""How long a remote may be silent."""
POLL_SECONDS = 1.0
"""How often a remote is asked that left a task to be asked about."""
CANCEL_SECONDS = 2.0
MOST_BYTES = 64 * 1024 * 1024
"""How much of one answer is read."""

_TAG = "<next>"
_HARMLESS = "&lt;next>"


class A2aAgent:
    """An agent somewhere else, by its URL or its A2A card.

    It keeps the conversation itself, under a context of its own for each session: it is handed the new message, with what
    others said since, as far as `history` reaches. A private call is a conversation of its own. When its task needs input,
    the user is asked, and the reply goes to that task. Files are taken up to limits.blob_bytes. What it says is text: it
    names no next speaker, hands nothing over and changes no state.
    A URL's card is fetched at the first turn, and must lead to the same host; to trust one that leads elsewhere, give the
    card. headers: sent with every request, or a function of our context, sync or async, that gives them. seconds: how long it
    may be silent. connect: makes the HTTP client, for proxies or certificates. name, description: the given card's by
    default; with a URL, a name is needed. children: the agents below it here. card: any other field of AgentCard.

    Raises MissingExtra, AgentDefinitionError.
    """

    def __init__(
        self,
        agent: "str | theirs.AgentCard",
        *,
        name: str | None = None,
        description: str | None = None,
        headers: Any = None,
        seconds: float = SECONDS,
        connect: "Callable[[], httpx.AsyncClient] | None" = None,
        history: Budget = HISTORY,
        children: Sequence[Agent] = (),
        **card: Any,
    ) -> None:
        try:
            from a2a.types import AgentCard
        except ImportError as error:
            raise MissingExtra("A remote agent", "a2a") from error
        self._theirs: AgentCard | None = None
        if isinstance(agent, AgentCard):
            skills = [{"name": s.name, "description": s.description, "examples": list(s.examples)} for s in agent.skills]
            card = {"skills": skills, **card}
            self._url, self._theirs = next((each.url for each in agent.supported_interfaces), ""), agent
        else:
            if urlsplit(agent).scheme not in {"http", "https"} or not urlsplit(agent).hostname:
                raise AgentDefinitionError("A remote agent's URL begins with http:// or https:// and names a host.")
            self._url = agent
        self.card = card_of(agent, name, description, {"kind": "remote", **card})
        self.children = members_of(self.card.name, children)
        self._headers, self._seconds, self._history = headers, seconds, history
        self._connect = connect or (lambda: bounded_client(MOST_BYTES))

    def __repr__(self) -> str:
        return f"A2aAgent({self.card.name!r})"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        await take_turn(context, partial(self._answer, context), self._explain)
        return
        yield

    async def _answer(self, context: AgentContext, voice: PieceWriter, resumed: ResumedRun | None) -> TurnAnswer:
        from a2a.client import ClientCallContext

        own = f"a2a:{self.card.name}"
        is_private = context.event().is_private
        known = {} if is_private else dict(context.state.get(own, {}))
        if resumed is None:
            said = await new_message(context, self._history, known.get("heard", 0))
            message, known["heard"], task, number = said.messages[0], said.until, "", 0
        else:
            message, task, known["context"] = resumed.reply, resumed.kept["task"], resumed.kept["context"]
            number = resumed.kept.get("number", 0) + 1
        call = ClientCallContext(timeout=self._seconds, service_parameters=dict(await resolved(self._headers, context) or {}))
        client = await self._client(call, streaming=context.config.streaming)
        exchange = _Exchange(self.card.name, client, call, voice)
        await exchange.hold(_message(message, known.get("context", ""), task, _id(context, number)))
        if not is_private:
            context.state[own] = {**known, "context": exchange.context_id}
        return exchange.said(context.config.limits, number)

    async def _client(self, call: "ClientCallContext", *, streaming: bool) -> "Client":
        from a2a.client import ClientConfig, ClientFactory

        http = await loop_local((A2aAgent, self), self._connect)
        card = self._theirs or await self._fetched(http, call)
        bindings = ["JSONRPC", "HTTP+JSON"]
        config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=bindings)
        try:
            client = ClientFactory(config).create(card)
        except ValueError:
            offered = ", ".join(sorted({each.protocol_binding for each in card.supported_interfaces})) or "nothing"
            raise AgentFailed(f"{self._named()} offers {offered}, and we speak {', '.join(bindings)}.") from None
        self._theirs = card
        return client

    async def _fetched(self, http: "httpx.AsyncClient", call: "ClientCallContext") -> "theirs.AgentCard":
        from a2a.client import A2ACardResolver

        options = {"headers": call.service_parameters, "timeout": self._seconds}
        card = await A2ACardResolver(http, self._url).get_agent_card(http_kwargs=options)
        strangers = sorted({_origin(each.url) for each in card.supported_interfaces} - {_origin(self._url)})
        if strangers:
            raise AgentFailed(
                f"The card of {self._named()} leads to {', '.join(strangers)}.",
                fix="If you trust that, give the adapter the card instead of the URL.",
            )
        return card

    def _named(self) -> str:
        return f"The remote agent {self.card.name!r} at {_shown(self._url)}"

    def _explain(self, error: Exception) -> TurnwiseError:
        import httpx
        from a2a.client import A2AClientTimeoutError
        from a2a.utils.errors import A2AError

        cause = error.__cause__ if isinstance(error, A2AError) else error
        status = cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else None
        if isinstance(error, A2AClientTimeoutError) or isinstance(cause, httpx.TimeoutException):
            return ModelUnavailable(
                f"{self._named()} gave no answer in {self._seconds:g} s.", fix="Try again later, or raise `seconds`."
            )
        if isinstance(cause, httpx.RemoteProtocolError):
            return AgentFailed(f"{self._named()} gave an answer that cannot be read: {error_text(cause)}")
        if isinstance(cause, httpx.RequestError) or (status is not None and (status == 429 or status >= 500)):
            why = type(cause).__name__ if status is None else f"status {status}"
            return ModelUnavailable(f"{self._named()} cannot be reached: {why}.", fix="Check that it runs, or try later.")
        if status is not None:
            return AgentFailed(f"{self._named()} refused the request: status {status}.", fix="Check its URL and `headers`.")
        if isinstance(error, A2AError):
            return AgentFailed(f"{self._named()} answered {type(error).__name__}: {error_text(error)}")
        return model_error(self.card.name, error)


class _Exchange:
    """One message to a remote, and what came of it: a message, or a task in some state."""

    def __init__(self, agent: str, client: "Client", call: "ClientCallContext", voice: PieceWriter) -> None:
        from a2a.types import Message, Task

        self._agent, self._client, self._call, self._voice = agent, client, call, voice
        self._task, self._message = Task(), Message()
        self._shown: dict[str, int] = {}

    @property
    def context_id(self) -> str:
        return self._message.context_id or self._task.context_id

    async def hold(self, message: "theirs.Message") -> None:
        """Sends it, and returns when there is nothing more to wait for. When it is cancelled, so is the remote's task."""
        from a2a.types import SendMessageRequest

        try:
            responses: Any = self._client.send_message(SendMessageRequest(message=message), context=self._call)
            async with aclosing(responses):
                async for response in responses:
                    await self._hear(response)
                    if self._is_settled():
                        break
            await self._poll()
        except asyncio.CancelledError:
            await self._cancel()
            raise

    def said(self, limits: Limits, number: int) -> TurnAnswer:
        """What it came to. AgentFailed when the task failed. number: how many messages the remote had before."""
        from a2a.types import TaskState

        if self._message.parts:
            return TurnAnswer(_taken(self._message.parts, limits))
        state, last = self._task.status.state, self._task.status.message.parts
        if state in (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED):
            question = Content(parts=_taken(last, limits)).text or f"{self._agent} needs something more from you."
            kept: dict[str, Any] = {"task": self._task.id, "context": self._task.context_id, "number": number}
            return TurnAnswer(question=question, kept=kept)
        if state != TaskState.TASK_STATE_COMPLETED:
            ended = TaskState.Name(state).removeprefix("TASK_STATE_").lower()
            why = error_text(Exception(Content(parts=_taken(last, limits)).text))
            raise AgentFailed(f"The task of the remote agent {self._agent!r} is {ended}: {why or 'it does not say why'}")
        parts = [part for artifact in self._task.artifacts for part in _taken(artifact.parts, limits)]
        return TurnAnswer([*parts, *(part for part in _taken(last, limits) if part not in parts)][: limits.parts])

    async def _hear(self, response: "theirs.StreamResponse") -> None:
        if response.HasField("message"):
            self._message.CopyFrom(response.message)
        elif response.HasField("task"):
            self._task.CopyFrom(response.task)
        elif response.HasField("status_update"):
            update = response.status_update
            self._task.id, self._task.context_id = update.task_id, update.context_id
            self._task.status.CopyFrom(update.status)
        elif response.HasField("artifact_update"):
            self._take(response.artifact_update)
        for artifact in self._task.artifacts:
            await self._show(artifact)

    def _take(self, update: "theirs.TaskArtifactUpdateEvent") -> None:
        self._task.id, self._task.context_id = update.task_id, update.context_id
        same = [each for each in self._task.artifacts if each.artifact_id == update.artifact.artifact_id]
        if not same:
            self._task.artifacts.append(update.artifact)
        elif update.append:
            same[0].parts.extend(update.artifact.parts)
        else:
            same[0].CopyFrom(update.artifact)

    async def _show(self, artifact: "theirs.Artifact") -> None:
        text = _settled("".join(part.text for part in artifact.parts))
        before = self._shown.get(artifact.artifact_id, 0)
        self._shown[artifact.artifact_id] = len(text)
        await self._voice.piece(text[before:], artifact.artifact_id)

    async def _poll(self) -> None:
        from a2a.types import GetTaskRequest

        while not self._is_settled() and self._task.id:
            await asyncio.sleep(POLL_SECONDS)
            self._task.CopyFrom(await self._client.get_task(GetTaskRequest(id=self._task.id), context=self._call))

    def _is_settled(self) -> bool:
        from a2a.types import TaskState

        open_ = (TaskState.TASK_STATE_SUBMITTED, TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_UNSPECIFIED)
        return bool(self._message.parts) or self._task.status.state not in open_

    async def _cancel(self) -> None:
        from a2a.types import CancelTaskRequest

        if self._task.id and not self._is_settled():
            with suppress(Exception):
                async with asyncio.timeout(CANCEL_SECONDS):
                    await self._client.cancel_task(CancelTaskRequest(id=self._task.id), context=self._call)


def _id(context: AgentContext, number: int) -> str:
    """The same in every attempt, another for each message: a remote that looks at it does all the work, and none twice."""
    return f"{context.invocation_id}:{context.event().branch}:{number}"


def _message(content: Content, context_id: str, task_id: str, id_: str) -> "theirs.Message":
    from a2a import types as theirs

    parts = [
        theirs.Part(text=piece)
        if isinstance(piece, str)
        else theirs.Part(raw=piece.data, media_type=piece.mime_type, filename=piece.name or "")
        for piece in usable_parts(content)
    ]
    role = theirs.Role.ROLE_USER
    return theirs.Message(message_id=id_, role=role, parts=parts, context_id=context_id, task_id=task_id)


def _taken(parts: "Sequence[theirs.Part]", limits: Limits) -> tuple[Part, ...]:
    """The parts as ours: texts that follow each other are one, as they come in pieces; no file that is too large."""
    taken: list[Part] = []
    for is_text, group in groupby(parts, lambda part: part.HasField("text")):
        if is_text:
            taken.append(TextPart(text=_harmless("".join(part.text for part in group))))
        else:
            taken += [_other(part, limits) for part in group]
    return tuple(taken[: limits.parts])


def _other(part: "theirs.Part", limits: Limits) -> Part:
    from google.protobuf.json_format import MessageToDict

    if part.HasField("data"):
        return DataPart(name=part.filename or None, data=MessageToDict(part.data))
    if part.HasField("url"):
        return TextPart(text=f"[file: {part.filename or part.media_type}, {part.url}]")
    if len(part.raw) > limits.blob_bytes:
        return TextPart(text=f"[file: {part.filename or part.media_type}, {len(part.raw):,} bytes, too large to be taken]")
    kind = part.media_type or "application/octet-stream"
    return BlobPart(data=part.raw, mime_type=kind, name=part.filename or None)


def _harmless(text: str) -> str:
    """The text without the tag by which our own agents name the next speaker."""
    return text.replace(_TAG, _HARMLESS)


def _settled(text: str) -> str:
    """The beginning of a text that grows, as far as it stays the same whatever comes."""
    held = next((size for size in range(len(_TAG) - 1, 0, -1) if text.endswith(_TAG[:size])), 0)
    return _harmless(text[: len(text) - held])


def _origin(url: str) -> str:
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc.rpartition('@')[2]}".lower()


def _shown(url: str) -> str:
    """The URL without what may be secret: no user, no query."""
    return f"{_origin(url)}{urlsplit(url).path}"
