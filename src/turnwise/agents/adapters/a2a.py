"""Adapter for remote agents that speak the A2A (agent-to-agent) protocol."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import count, groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from turnwise.agents.adapters.adapter import (
    HISTORY,
    PieceWriter,
    ResumedRun,
    Targets,
    TurnAnswer,
    card_of,
    error_text,
    model_error,
    new_message,
    resolved,
    take_turn,
    usable_parts,
)
from turnwise.agents.adapters.bounded_client import bounded_client
from turnwise.agents.members import members_of
from turnwise.facts.content import BlobPart, Content, DataPart, Part, TextPart, text_content
from turnwise.facts.errors import (
    AgentDefinitionError,
    AgentFailed,
    MissingExtra,
    ModelUnavailable,
    TurnwiseError,
)
from turnwise.facts.events import Event
from turnwise.facts.limits import Limits
from turnwise.models.outgoing import loop_local
from turnwise.ports.agent import Agent
from turnwise.ports.context import AgentContext
from turnwise.transcript.view import Budget

if TYPE_CHECKING:
    import httpx
    from a2a import types as theirs
    from a2a.client import Client, ClientCallContext


SECONDS = 120.0
"""The longest silence of a remote agent."""
POLL_SECONDS = 1.0
"""The interval for polling a task that is still running."""
CANCEL_SECONDS = 2.0
MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of one response."""

TRANSFER = "urn:turnwise:a2a:transfer"
"""The A2A extension by which a remote agent transfers the conversation (docs/adapters.md)."""
MOST_REFUSALS = 2
"""How often a remote agent is told that its target cannot take over, in one turn."""

_TAG = "<next>"
_ESCAPED_TAG = "&lt;next>"


class A2aAgent:
    """A remote agent, given by its URL or its A2A card.

    The remote keeps the conversation, in a separate A2A context for each session. It gets the new message, with the
    words that others said since its last turn. A private call is a separate conversation. If its task needs input, the
    adapter asks the user and sends the reply to that task. The answer is content only: it names no next speaker and
    changes no state, and it transfers only with `hands_over`.

    Args:
        agent: The URL or the A2A card. The card of a URL is fetched at the first turn and must point to the same host.
            To trust a card that points elsewhere, pass the card itself.
        name: By default the card's name; required with a URL.
        description: By default the card's description.
        headers: Headers of every request, or a function of the AgentContext, sync or async, that returns them.
        seconds: The longest silence of the remote.
        connect: Creates the HTTP client, for example to set proxies or certificates.
        hands_over: Names the agent's transfer targets to the remote, with their descriptions, by the A2A extension
            `urn:turnwise:a2a:transfer`. A data part of that extension in its answer transfers to one of them. A remote
            without the extension ignores it.
        history: The budget of the message, with the words of others.
        children: The agents below this one.
        card: Other fields of AgentCard. Files up to `limits.blob_bytes` are accepted in answers.

    Raises:
        MissingExtra: The A2A library is not installed.
        AgentDefinitionError: The URL or the card is not valid.
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
        hands_over: bool = False,
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
        self._hands_over = hands_over
        self._connect = connect or (lambda: bounded_client(MOST_BYTES))

    def __repr__(self) -> str:
        return f"A2aAgent({self.card.name!r})"

    async def run(self, context: AgentContext) -> AsyncIterator[Event]:
        await take_turn(context, partial(self._answer, context), self._explain)
        return
        yield

    async def _answer(self, context: AgentContext, writer: PieceWriter, resumed: ResumedRun | None) -> TurnAnswer:
        """Sends the message, or the reply to a resumed task, and returns the remote answer. Remembers its context id."""
        from a2a.client import ClientCallContext

        state_key = f"a2a:{self.card.name}"
        is_private = context.event().is_private
        memory = {} if is_private else dict(context.state.get(state_key, {}))
        if resumed is None:
            conversation = await new_message(context, self._history, memory.get("heard", 0))
            message, memory["heard"], task, number = conversation.messages[0], conversation.until, "", 0
        else:
            message, task, memory["context"] = resumed.reply, resumed.checkpoint["task"], resumed.checkpoint["context"]
            number = resumed.checkpoint.get("number", 0) + 1
        targets = Targets.even_none(context) if self._hands_over else None
        headers = dict(await resolved(self._headers, context) or {})
        call = ClientCallContext(timeout=self._seconds, service_parameters=_with_extension(headers, targets))
        client = await self._client(call, streaming=context.config.streaming)
        request = _message(message, memory.get("context", ""), task, _id(context, number))
        begin = partial(_Exchange, self.card.name, client, call, writer)
        answer, context_id = await self._permitted_answer(context, begin, request, targets, number)
        if not is_private:
            context.state[state_key] = {**memory, "context": context_id}
        return answer

    async def _permitted_answer(
        self,
        context: AgentContext,
        begin: "Callable[[int], _Exchange]",
        request: "theirs.Message",
        targets: Targets | None,
        number: int,
    ) -> tuple[TurnAnswer, str]:
        """Sends the request. To an answer with a forbidden target it replies with the reason.

        Returns:
            The answer and the id of the remote's context.

        Raises:
            AgentFailed: The task failed, or the remote repeats forbidden targets.
        """
        for sent in count(number):
            exchange = begin(sent)
            await exchange.run(request if targets is None else _with_targets(request, targets))
            answer, problem = exchange.answer(context.config.limits), None
            if targets is not None and answer.question is None:
                answer, problem = _take_target(answer, targets)
            if problem is None:
                break
            if sent - number == MOST_REFUSALS:
                raise AgentFailed(f"The remote agent {self.card.name!r} handed over to nobody. {problem}")
            request = _message(text_content(problem, "user"), exchange.context_id, "", _id(context, sent + 1))
        return answer, exchange.context_id

    async def _client(self, call: "ClientCallContext", *, streaming: bool) -> "Client":
        """Returns a client for this call; the remote card is fetched once. Raises AgentFailed without a common binding."""
        from a2a.client import ClientConfig, ClientFactory

        http = await loop_local((A2aAgent, self), self._connect)
        card = self._theirs or await self._fetch_card(http, call)
        bindings = ["JSONRPC", "HTTP+JSON"]
        config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=bindings)
        try:
            client = ClientFactory(config).create(card)
        except ValueError:
            offered = ", ".join(sorted({each.protocol_binding for each in card.supported_interfaces})) or "nothing"
            raise AgentFailed(f"{self._label()} offers {offered}, and we speak {', '.join(bindings)}.") from None
        self._theirs = card
        return client

    async def _fetch_card(self, http: "httpx.AsyncClient", call: "ClientCallContext") -> "theirs.AgentCard":
        """Returns the remote agent's card. Raises AgentFailed when it leads to another host."""
        from a2a.client import A2ACardResolver

        options = {"headers": call.service_parameters, "timeout": self._seconds}
        card = await A2ACardResolver(http, self._url).get_agent_card(http_kwargs=options)
        foreign_hosts = sorted({_origin(each.url) for each in card.supported_interfaces} - {_origin(self._url)})
        if foreign_hosts:
            raise AgentFailed(
                f"The card of {self._label()} leads to {', '.join(foreign_hosts)}.",
                fix="If you trust that, give the adapter the card instead of the URL.",
            )
        return card

    def _label(self) -> str:
        return f"The remote agent {self.card.name!r} at {_public_url(self._url)}"

    def _explain(self, error: Exception) -> TurnwiseError:
        """Returns our error for an error of the client or the remote agent."""
        import httpx
        from a2a.client import A2AClientTimeoutError
        from a2a.utils.errors import A2AError

        cause = error.__cause__ if isinstance(error, A2AError) else error
        status = cause.response.status_code if isinstance(cause, httpx.HTTPStatusError) else None
        if isinstance(error, A2AClientTimeoutError) or isinstance(cause, httpx.TimeoutException):
            return ModelUnavailable(
                f"{self._label()} gave no answer in {self._seconds:g} s.", fix="Try again later, or raise `seconds`."
            )
        if isinstance(cause, httpx.RemoteProtocolError):
            return AgentFailed(f"{self._label()} gave an answer that cannot be read: {error_text(cause)}")
        if isinstance(cause, httpx.RequestError) or (status is not None and (status == 429 or status >= 500)):
            why = type(cause).__name__ if status is None else f"status {status}"
            return ModelUnavailable(f"{self._label()} cannot be reached: {why}.", fix="Check that it runs, or try later.")
        if status is not None:
            return AgentFailed(f"{self._label()} refused the request: status {status}.", fix="Check its URL and `headers`.")
        if isinstance(error, A2AError):
            return AgentFailed(f"{self._label()} answered {type(error).__name__}: {error_text(error)}")
        return model_error(self.card.name, error)


class _Exchange:
    """One message to a remote agent and its outcome: a message, or a task in some state."""

    def __init__(self, agent: str, client: "Client", call: "ClientCallContext", writer: PieceWriter, number: int) -> None:
        """`number` counts the messages that the remote got before in this turn."""
        from a2a.types import Message, Task

        self._agent, self._client, self._call, self._writer, self._number = agent, client, call, writer, number
        self._task, self._message = Task(), Message()
        self._shown_lengths: dict[str, int] = {}

    @property
    def context_id(self) -> str:
        return self._message.context_id or self._task.context_id

    async def run(self, message: "theirs.Message") -> None:
        """Sends the message and waits for the outcome. If it is cancelled, it cancels the remote's task too."""
        from a2a.types import SendMessageRequest

        try:
            responses: Any = self._client.send_message(SendMessageRequest(message=message), context=self._call)
            async with aclosing(responses):
                async for response in responses:
                    await self._apply(response)
                    if self._is_settled():
                        break
            await self._poll()
        except asyncio.CancelledError:
            await self._cancel()
            raise

    def answer(self, limits: Limits) -> TurnAnswer:
        """Returns the answer or the question.

        Raises:
            AgentFailed: The task failed.
        """
        from a2a.types import TaskState

        if self._message.parts:
            return TurnAnswer(_converted(self._message.parts, limits))
        state, last = self._task.status.state, self._task.status.message.parts
        if state in (TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED):
            question = Content(parts=_converted(last, limits)).text or f"{self._agent} needs something more from you."
            checkpoint: dict[str, Any] = {"task": self._task.id, "context": self._task.context_id, "number": self._number}
            return TurnAnswer(question=question, checkpoint=checkpoint)
        if state != TaskState.TASK_STATE_COMPLETED:
            ended = TaskState.Name(state).removeprefix("TASK_STATE_").lower()
            why = error_text(Exception(Content(parts=_converted(last, limits)).text))
            raise AgentFailed(f"The task of the remote agent {self._agent!r} is {ended}: {why or 'it does not say why'}")
        parts = [part for artifact in self._task.artifacts for part in _converted(artifact.parts, limits)]
        return TurnAnswer([*parts, *(part for part in _converted(last, limits) if part not in parts)][: limits.parts])

    async def _apply(self, response: "theirs.StreamResponse") -> None:
        """Applies one streamed response to the task or message, and shows its new artifacts."""
        if response.HasField("message"):
            self._message.CopyFrom(response.message)
        elif response.HasField("task"):
            self._task.CopyFrom(response.task)
        elif response.HasField("status_update"):
            update = response.status_update
            self._task.id, self._task.context_id = update.task_id, update.context_id
            self._task.status.CopyFrom(update.status)
        elif response.HasField("artifact_update"):
            self._apply_artifact(response.artifact_update)
        for artifact in self._task.artifacts:
            await self._show(artifact)

    def _apply_artifact(self, update: "theirs.TaskArtifactUpdateEvent") -> None:
        """Adds, extends or replaces an artifact of the task."""
        self._task.id, self._task.context_id = update.task_id, update.context_id
        same = [each for each in self._task.artifacts if each.artifact_id == update.artifact.artifact_id]
        if not same:
            self._task.artifacts.append(update.artifact)
        elif update.append:
            same[0].parts.extend(update.artifact.parts)
        else:
            same[0].CopyFrom(update.artifact)

    async def _show(self, artifact: "theirs.Artifact") -> None:
        text = _stable_part("".join(part.text for part in artifact.parts))
        before = self._shown_lengths.get(artifact.artifact_id, 0)
        self._shown_lengths[artifact.artifact_id] = len(text)
        await self._writer.piece(text[before:], f"{self._number}:{artifact.artifact_id}")

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
        """Cancels the remote task if it is unfinished. Ignores errors."""
        from a2a.types import CancelTaskRequest

        if self._task.id and not self._is_settled():
            with suppress(Exception):
                async with asyncio.timeout(CANCEL_SECONDS):
                    await self._client.cancel_task(CancelTaskRequest(id=self._task.id), context=self._call)


def _id(context: AgentContext, number: int) -> str:
    """Returns the message id: the same in every attempt, different for each message.

    A remote that checks the id therefore processes every message exactly once.
    """
    return f"{context.invocation_id}:{context.event().branch}:{number}"


def _message(content: Content, context_id: str, task_id: str, id_: str) -> "theirs.Message":
    """Returns the content as a message of the protocol."""
    from a2a import types as theirs

    parts = [
        theirs.Part(text=piece)
        if isinstance(piece, str)
        else theirs.Part(raw=piece.data, media_type=piece.mime_type, filename=piece.name or "")
        for piece in usable_parts(content)
    ]
    role = theirs.Role.ROLE_USER
    return theirs.Message(message_id=id_, role=role, parts=parts, context_id=context_id, task_id=task_id)


def _with_extension(headers: dict[str, str], targets: Targets | None) -> dict[str, str]:
    """Returns the headers; with targets, they request the extension."""
    from a2a.client.service_parameters import with_a2a_extensions

    if targets is not None:
        with_a2a_extensions([TRANSFER])(headers)
    return headers


def _with_targets(message: "theirs.Message", targets: Targets) -> "theirs.Message":
    """Adds the agents that can take over to the message, as metadata of the extension."""
    listed = [{"name": name, "description": about} for name, about in targets.described.items()]
    message.extensions.append(TRANSFER)
    message.metadata.update({TRANSFER: {"targets": listed}})
    return message


def _take_target(answer: TurnAnswer, targets: Targets) -> tuple[TurnAnswer, str | None]:
    """Takes the extension's parts out of the answer.

    Returns:
        The answer with the first permitted target, and None; or the answer and why no target is permitted.
    """
    kept, problems = [], []
    for part in answer.parts:
        wanted = part.data.get(TRANSFER) if isinstance(part, DataPart) and isinstance(part.data, dict) else None
        if wanted is None:
            kept.append(part)
            continue
        fields = wanted if isinstance(wanted, dict) else {}
        problem = targets.choose(fields.get("agent"), fields.get("message"))
        if problem is not None:
            problems.append(problem)
    if targets.chosen is not None or not problems:
        return answer._replace(parts=kept, target=targets.chosen), None
    return answer, problems[0]


def _converted(parts: "Sequence[theirs.Part]", limits: Limits) -> tuple[Part, ...]:
    """Converts the parts to ours. Consecutive texts are joined, and files that are too large are replaced with a note."""
    taken: list[Part] = []
    for is_text, group in groupby(parts, lambda part: part.HasField("text")):
        if is_text:
            taken.append(TextPart(text=_escape_tag("".join(part.text for part in group))))
        else:
            taken += [_other(part, limits) for part in group]
    return tuple(taken[: limits.parts])


def _other(part: "theirs.Part", limits: Limits) -> Part:
    """Converts a part that is not text; a blob that is too large becomes a text."""
    from google.protobuf.json_format import MessageToDict

    if part.HasField("data"):
        return DataPart(name=part.filename or None, data=MessageToDict(part.data))
    if part.HasField("url"):
        return TextPart(text=f"[file: {part.filename or part.media_type}, {part.url}]")
    if len(part.raw) > limits.blob_bytes:
        return TextPart(text=f"[file: {part.filename or part.media_type}, {len(part.raw):,} bytes, too large to be taken]")
    kind = part.media_type or "application/octet-stream"
    return BlobPart(data=part.raw, mime_type=kind, name=part.filename or None)


def _escape_tag(text: str) -> str:
    """Escapes the tag by which our own agents name the next speaker."""
    return text.replace(_TAG, _ESCAPED_TAG)


def _stable_part(text: str) -> str:
    """Returns the beginning of a growing text that later chunks cannot change."""
    undecided = next((size for size in range(len(_TAG) - 1, 0, -1) if text.endswith(_TAG[:size])), 0)
    return _escape_tag(text[: len(text) - undecided])


def _origin(url: str) -> str:
    split = urlsplit(url)
    return f"{split.scheme}://{split.netloc.rpartition('@')[2]}".lower()


def _public_url(url: str) -> str:
    """Returns the URL without user and query, which may be secret."""
    return f"{_origin(url)}{urlsplit(url).path}"
