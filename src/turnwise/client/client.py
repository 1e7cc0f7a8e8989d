"""The client: messages in, answers out; and the rest of a gateway's API behind its parts."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from copy import copy
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from pydantic import JsonValue

from turnwise.client.gateway import Gateway, checked_key, checked_url, is_this_machine
from turnwise.client.request import Asked, at_session, escaped, get, if_revision, post
from turnwise.client.resources import Agents, Artifacts, Decisions, Sessions
from turnwise.client.stream import answer_to, read
from turnwise.client.sync import Sync
from turnwise.facts.content import Content
from turnwise.facts.errors import MissingExtra, RequestInvalid
from turnwise.facts.events import Event
from turnwise.facts.ids import Issuer, SystemIssuer
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection
from turnwise.wire.messages import Answer, OpenCall, Stopping
from turnwise.wire.resources import OpenWait

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
WhenBusy = Literal["queue", "reject", "interrupt"]


class Client:
    """A client of one gateway, for any number of tasks, threads and event loops.

    key: an API key or a token; None where the gateway asks for none. user: for whom everything is done, by a key that acts for
    users; None = as the credential says. timeout: seconds without a byte after which a connection is given up; more than the
    gateway's `stream_ping_seconds`. patience: seconds for which what may pass is tried again, such as a gateway that is being
    restarted; 0 = nothing is. http: makes the HTTP client, for certificates, proxies or headers of your own; by default
    proxies are those of the environment, but for addresses of this machine.

    What goes wrong is raised as the error that the runner raises in the same process; Unreached when the gateway cannot be
    reached. ConfigError for a URL or a key that cannot be one; MissingExtra.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        user: str | None = None,
        timeout: float = 60.0,
        patience: float = 60.0,
        http: "Callable[[], httpx.AsyncClient] | None" = None,
        issuer: Issuer | None = None,
    ) -> None:
        _check_installed()
        url, key = checked_url(url), checked_key(key)
        self._issuer, self._sync = issuer or SystemIssuer(), Sync()
        self._asks(Gateway(url, key, http or _maker(url), timeout=timeout, patience=patience).for_user(user))

    def for_user(self, user: str) -> Self:
        """The same client for that user, by a key that acts for users. Connections are shared: close one of both."""
        other = copy(self)
        other._asks(self._gateway.for_user(user))
        return other

    async def send(
        self,
        session: str,
        content: str | Content,
        *,
        id: str | None = None,
        context: MessageContext | None = None,
        when_busy: WhenBusy | None = None,
        deadline_seconds: float | None = None,
        revision: int | None = None,
        wait: bool = True,
    ) -> Answer:
        """Hands in a message, and gives its answer; without `wait` only that it is stored.

        id: your own of the message; the same again is the same message, and gives the same answer. Without one it gets one,
        so that it can be tried again here. when_busy: what to do while another is answered. revision: which the session must
        have. Raises MessageError (nothing was stored), SessionMissing, SessionBusy, PreconditionFailed, QueueFull, TooMany,
        StoreError. An answer that failed does not raise: see its `end` and `error`. Whoever stops waiting does not stop the
        run.
        """
        asked, again = self._message(session, content, id, context, when_busy, deadline_seconds)
        return await self._answer(if_revision(asked, revision), again, wait=wait)

    def stream(
        self,
        session: str,
        content: str | Content,
        *,
        id: str | None = None,
        context: MessageContext | None = None,
        when_busy: WhenBusy | None = None,
        deadline_seconds: float | None = None,
        revision: int | None = None,
    ) -> AsyncIterator[Event | Answer]:
        """As `send`, and gives the events as they come, partial ones too, and the answer as the last.

        Connections that break off, and gateways that are being stopped, are followed by another: no event is lost, none comes
        twice. Pieces of an answer may be missing then; its whole is not.
        """
        asked, again = self._message(session, content, id, context, when_busy, deadline_seconds)
        return read(self._gateway, if_revision(asked, revision), again)

    async def find(
        self, session: str, *, message_id: str | None = None, invocation_id: str | None = None, wait: bool = False
    ) -> Answer:
        """What became of that message, or of a whole invocation: as far as it is, or when it is answered. InvocationMissing."""
        place = _place(session, message_id, invocation_id)
        if not wait:
            return await self._gateway.ask(Answer, get(place))
        events = get(_place(session, message_id, invocation_id, "/events"))
        return await answer_to(self._gateway, get(place, wait=True), events, events)

    def attach(
        self, session: str, *, message_id: str | None = None, invocation_id: str | None = None, after: int = 0
    ) -> AsyncIterator[Event | Answer]:
        """Reads that message, or a whole invocation, from above that sequence number on, as `stream`. InvocationMissing."""
        asked = get(_place(session, message_id, invocation_id, "/events"))
        return read(self._gateway, asked, asked, after)

    async def select(
        self, content: str | Content, *, session: str | None = None, context: MessageContext | None = None
    ) -> Selection:
        """Who would answer this message now, and why. Nothing is stored and nobody runs. SessionMissing."""
        body = _body(content=content, session_id=session, context=context)
        return await self._gateway.ask(Selection, post("/select", body))

    async def answer(
        self,
        session: str,
        call: OpenCall | OpenWait,
        *,
        text: str | None = None,
        approved: bool | None = None,
        reason: str = "",
        result: JsonValue | EllipsisType = ...,
        failed: bool = False,
        id: str | None = None,
        wait: bool = True,
    ) -> Answer:
        """Answers what an invocation waits for, one of an answer's or a session's `waits`; the same again is the same message.

        One of these: `text`, what the user replies; `approved`, whether a tool may be called, and the `reason`; `result`, what
        a tool gave, or, with `failed`, why it did not. The rest as of `send`. UnknownToolCall when it does not wait for that
        (any more), RequestInvalid for an answer of another kind.
        """
        said: dict[str, Any] = _body(text=text, approved=approved)
        if approved is not None:
            said["reason"] = reason
        if not isinstance(result, EllipsisType):
            said |= {"result": result, "failed": failed}
        body = _body(call_id=call.call_id, id=id) | said
        asked = post(at_session(session, "invocations", escaped(call.invocation_id), "answer"), body)
        return await self._answer(asked, asked, wait=wait)

    async def cancel(self, session: str, invocation_id: str, *, wait: bool = True) -> Stopping:
        """Stops it, wherever it runs, or gives up what it waits for. One that has ended stays as it is. InvocationMissing.

        Without `wait` it may not have stopped yet.
        """
        asked = post(at_session(session, "invocations", escaped(invocation_id), "cancel"), wait=wait)
        return await self._gateway.ask(Stopping, asked)

    async def regenerate(self, session: str, invocation_id: str, *, wait: bool = True) -> Answer:
        """Takes the session back to before that invocation, and answers its message again. InvocationMissing, SessionBusy.

        It is not begun again when it may have been begun.
        """
        asked = post(at_session(session, "invocations", escaped(invocation_id), "regenerate"), wait=False)
        begun = await self._gateway.ask(Answer, asked, repeatable=False)
        return await self.find(session, message_id=begun.message_id, wait=True) if wait else begun

    @overload
    def run_sync(self, work: Coroutine[Any, Any, T]) -> T: ...
    @overload
    def run_sync(self, work: AsyncIterator[T]) -> Iterator[T]: ...
    def run_sync(self, work: Coroutine[Any, Any, T] | AsyncIterator[T]) -> T | Iterator[T]:
        """What a method of this client gives, for programs without an event loop, in any number of threads: its result, or, of
        a stream or list, an iterator. ConfigError inside a running event loop.
        """
        return self._sync.result(work) if isinstance(work, Coroutine) else self._sync.each(work)

    async def close(self) -> None:
        """Closes the connections of this event loop. Idempotent."""
        await self._gateway.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _asks(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self.sessions, self.artifacts = Sessions(gateway, self._issuer), Artifacts(gateway)
        self.decisions, self.agents = Decisions(gateway), Agents(gateway)

    def _message(
        self,
        session: str,
        content: str | Content,
        id: str | None,
        context: MessageContext | None,
        when_busy: WhenBusy | None,
        deadline_seconds: float | None,
    ) -> tuple[Asked, Asked]:
        """How it is handed in, and how it is read on."""
        id = self._issuer.new_id("message") if id is None else id
        body = _body(
            content=content,
            id=id,
            context=context,
            when_busy=when_busy,
            deadline_seconds=deadline_seconds,
        )
        return post(at_session(session, "messages"), body), get(_place(session, id, None))

    async def _answer(self, asked: Asked, again: Asked, *, wait: bool) -> Answer:
        if wait:
            return await answer_to(self._gateway, asked, asked, again)
        return await self._gateway.ask(Answer, asked._replace(query={"wait": False}))


def _check_installed() -> None:
    try:
        import httpx  # noqa: F401
        import httpx_sse  # noqa: F401
    except ImportError as error:
        raise MissingExtra("The client", "client") from error


def _maker(url: str) -> "Callable[[], httpx.AsyncClient]":
    import httpx

    limits, here = httpx.Limits(max_connections=None, max_keepalive_connections=100), is_this_machine(url)
    # Certificates take longer to load than many an answer to come, and what stays on this machine needs none.
    verify = not (here and url.startswith("http:"))
    return lambda: httpx.AsyncClient(trust_env=not here, limits=limits, verify=verify)


def _place(session: str, message_id: str | None, invocation_id: str | None, of_invocation: str = "") -> str:
    """The path of a message or an invocation. RequestInvalid unless one is named."""
    if message_id is not None and invocation_id is None:
        return at_session(session, "messages", escaped(message_id))
    if invocation_id is not None and message_id is None:
        return at_session(session, "invocations", escaped(invocation_id) + of_invocation)
    raise RequestInvalid("It is not said which message, or which invocation.", fix="Pass message_id or invocation_id.")


def _body(**given: Any) -> dict[str, Any]:
    """What was given."""
    return {name: value for name, value in given.items() if value is not None}
