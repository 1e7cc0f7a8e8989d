"""The client: sends messages, streams answers, and gives access to sessions, artifacts, decisions and agents."""

import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from copy import copy
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

from pydantic import JsonValue

from turnwise.client.connection import (
    ApiRequest,
    Gateway,
    check_key,
    check_url,
    escape_path,
    get,
    is_this_machine,
    post,
    session_path,
    with_revision,
)
from turnwise.client.operators import AgentDefinitions, Definitions, Experiments, Review
from turnwise.client.resources import Agents, Artifacts, Decisions, Memories, Sessions
from turnwise.client.stream import answer_to, read
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

    from turnwise.runner.blocking_portal import BlockingPortal

T = TypeVar("T")


class Sync:
    """A blocking portal that is opened at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._portal: BlockingPortal | None = None

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the coroutine's result. Raises ConfigError inside a running event loop."""
        return self._open().run(work)

    def each(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Yields the items. Closing the iterator closes the stream."""
        try:
            while True:
                try:
                    yield self.result(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self.result(_close(items))

    def _open(self) -> "BlockingPortal":
        """Returns the portal for blocking calls, made at the first one."""
        from turnwise.runner.blocking_portal import BlockingPortal

        with self._lock:
            if self._portal is None:
                self._portal = BlockingPortal("Use `await` or `async for` there.")
            return self._portal


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _close(items: AsyncIterator[Any]) -> None:
    close = getattr(items, "aclose", None)
    if close is not None:
        await close()


WhenBusy = Literal["queue", "reject", "interrupt"]


class Client:
    """A client of one gateway. It may be shared by tasks, threads and event loops.

    Errors of the gateway are raised as the same classes that the runner raises in process.

    Args:
        url: The gateway's address, such as `http://127.0.0.1:8000`.
        key: An API key or a token; None if the gateway needs none.
        user: The user to act for, with a key that acts for users; None for the credential's own user.
        timeout: Seconds without a byte after which a connection is closed. Has to exceed the gateway's
            `stream_ping_seconds`.
        patience: How many seconds temporary errors are retried, such as during a gateway's restart; 0 disables
            retries.
        http: Creates the HTTP client, for own certificates, proxies or headers. By default, the environment's proxies
            are used, except for addresses of this machine.
        issuer: Generates ids.

    Raises:
        ConfigError: The URL or the key is malformed.
        MissingExtra: The extra `client` is not installed.
        Unreached: Raised by all operations if the gateway cannot be reached.
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
        url, key = check_url(url), check_key(key)
        self._issuer, self._sync = issuer or SystemIssuer(), Sync()
        self._use(Gateway(url, key, http or _http_factory(url), timeout=timeout, patience=patience).for_user(user))

    def for_user(self, user: str) -> Self:
        """Returns a client for this user, with a key that acts for users. Both share their connections: close only one
        of them.
        """
        other = copy(self)
        other._use(self._gateway.for_user(user))
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
        """Sends a message and returns its answer; with `wait=False`, returns as soon as the message is stored.

        An answer that failed does not raise: see its `end` and `error`. Cancelling this call does not stop the run.

        Args:
            session: The session's id.
            content: The message.
            id: Your id of the message. Sending the same id again returns the same answer. If None, an id is
                generated, so that this call can retry safely.
            context: The message's context.
            when_busy: How to handle a session that is answering another message.
            deadline_seconds: The time limit of the run.
            revision: The revision that the session must have; None for any.
            wait: Whether to wait for the answer.

        Raises:
            MessageError: The message is invalid; nothing was stored.
            SessionMissing: There is no such session, and the app does not create sessions.
            SessionBusy: The session is answering another message.
            PreconditionFailed: The session has another revision.
            QueueFull: Too many messages wait in the session.
            TooMany: A quota is used up.
            StoreError: The gateway's store failed.
        """
        asked, again = self._message(session, content, id, context, when_busy, deadline_seconds)
        return await self._answer(with_revision(asked, revision), again, wait=wait)

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
        """Sends a message as `send` does, and yields its events as they come, including partial ones. The last item is
        the answer.

        A broken connection is resumed: no event is lost or repeated. Pieces of a text may be missing then; the
        complete event follows in any case.
        """
        asked, again = self._message(session, content, id, context, when_busy, deadline_seconds)
        return read(self._gateway, with_revision(asked, revision), again)

    async def find(
        self, session: str, *, message_id: str | None = None, invocation_id: str | None = None, wait: bool = False
    ) -> Answer:
        """Returns the answer to a message, or of an invocation: its current state, or the final one with `wait=True`.

        Raises:
            InvocationMissing: There is no such message or invocation.
        """
        place = _path_of(session, message_id, invocation_id)
        if not wait:
            return await self._gateway.ask(Answer, get(place))
        events = get(_path_of(session, message_id, invocation_id, "/events"))
        return await answer_to(self._gateway, get(place, wait=True), events, events)

    def attach(
        self, session: str, *, message_id: str | None = None, invocation_id: str | None = None, after: int = 0
    ) -> AsyncIterator[Event | Answer]:
        """Yields the events of a message or an invocation above the sequence number `after`, as `stream` does.

        Raises:
            InvocationMissing: There is no such message or invocation.
        """
        asked = get(_path_of(session, message_id, invocation_id, "/events"))
        return read(self._gateway, asked, asked, after)

    async def select(
        self, content: str | Content, *, session: str | None = None, context: MessageContext | None = None
    ) -> Selection:
        """Returns which agent would answer the message now, and why. Stores nothing and runs no agent. Raises
        SessionMissing.
        """
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
        """Answers an open wait of an invocation. Idempotent: a repeated answer is the same message.

        Pass exactly one of `text`, `approved` and `result`.

        Args:
            session: The session's id.
            call: The wait, from the `waits` of an answer or a session.
            text: The user's reply.
            approved: Whether the tool may be called.
            reason: The reason for the approval or rejection.
            result: The tool's result.
            failed: Whether the tool failed; `result` is then the error.
            id: Your id of the message.
            wait: Whether to wait for the answer.

        Raises:
            UnknownToolCall: The invocation does not have this wait, or no longer.
            RequestInvalid: The answer's kind does not fit the wait.
        """
        said: dict[str, Any] = _body(text=text, approved=approved)
        if approved is not None:
            said["reason"] = reason
        if not isinstance(result, EllipsisType):
            said |= {"result": result, "failed": failed}
        body = _body(call_id=call.call_id, id=id) | said
        asked = post(session_path(session, "invocations", escape_path(call.invocation_id), "answer"), body)
        return await self._answer(asked, asked, wait=wait)

    async def cancel(self, session: str, invocation_id: str, *, wait: bool = True) -> Stopping:
        """Cancels an invocation in whichever process it runs, or ends its waits. An invocation that has ended does not
        change.

        With `wait=False` it may still be running on return.

        Raises:
            InvocationMissing: There is no such invocation.
        """
        asked = post(session_path(session, "invocations", escape_path(invocation_id), "cancel"), wait=wait)
        return await self._gateway.ask(Stopping, asked)

    async def regenerate(self, session: str, invocation_id: str, *, wait: bool = True) -> Answer:
        """Rewinds the session to before the invocation, and answers its message again. Not retried if it may have been
        started.

        Raises:
            InvocationMissing: There is no such invocation.
            SessionBusy: The session is answering a message.
        """
        asked = post(session_path(session, "invocations", escape_path(invocation_id), "regenerate"), wait=False)
        begun = await self._gateway.ask(Answer, asked, repeatable=False)
        return await self.find(session, message_id=begun.message_id, wait=True) if wait else begun

    @overload
    def run_sync(self, work: Coroutine[Any, Any, T]) -> T: ...
    @overload
    def run_sync(self, work: AsyncIterator[T]) -> Iterator[T]: ...
    def run_sync(self, work: Coroutine[Any, Any, T] | AsyncIterator[T]) -> T | Iterator[T]:
        """Runs a method of this client in a program without an event loop, from any number of threads.

        Returns:
            The result of a coroutine, or an iterator over a stream or list.

        Raises:
            ConfigError: It is called inside a running event loop.
        """
        return self._sync.result(work) if isinstance(work, Coroutine) else self._sync.each(work)

    async def close(self) -> None:
        """Closes the connections of this event loop. Idempotent."""
        await self._gateway.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _use(self, gateway: Gateway) -> None:
        """Sends all requests through this gateway from now on."""
        self._gateway = gateway
        self.sessions, self.artifacts = Sessions(gateway, self._issuer), Artifacts(gateway)
        self.decisions, self.agents = Decisions(gateway), Agents(gateway)
        self.memories = Memories(gateway, self._issuer)
        self.definitions, self.policies = AgentDefinitions(gateway, "agent"), Definitions(gateway, "policy")
        self.review, self.experiments = Review(gateway), Experiments(gateway)

    def _message(
        self,
        session: str,
        content: str | Content,
        id: str | None,
        context: MessageContext | None,
        when_busy: WhenBusy | None,
        deadline_seconds: float | None,
    ) -> tuple[ApiRequest, ApiRequest]:
        """Returns the request that sends the message, and the request that reads it again."""
        id = self._issuer.new_id("message") if id is None else id
        body = _body(
            content=content,
            id=id,
            context=context,
            when_busy=when_busy,
            deadline_seconds=deadline_seconds,
        )
        return post(session_path(session, "messages"), body), get(_path_of(session, id, None))

    async def _answer(self, asked: ApiRequest, again: ApiRequest, *, wait: bool) -> Answer:
        if wait:
            return await answer_to(self._gateway, asked, asked, again)
        return await self._gateway.ask(Answer, asked._replace(query={"wait": False}))


def _check_installed() -> None:
    try:
        import httpx  # noqa: F401
        import httpx_sse  # noqa: F401
    except ImportError as error:
        raise MissingExtra("The client", "client") from error


def _http_factory(url: str) -> "Callable[[], httpx.AsyncClient]":
    """Returns a function that makes the HTTP client for this URL."""
    import httpx

    limits, here = httpx.Limits(max_connections=None, max_keepalive_connections=100), is_this_machine(url)
    # Loading certificates can take longer than a request, and plain HTTP on this machine needs none.
    verify = not (here and url.startswith("http:"))
    return lambda: httpx.AsyncClient(trust_env=not here, limits=limits, verify=verify)


def _path_of(session: str, message_id: str | None, invocation_id: str | None, of_invocation: str = "") -> str:
    """Returns the path of a message or an invocation. Raises RequestInvalid unless exactly one is named."""
    if message_id is not None and invocation_id is None:
        return session_path(session, "messages", escape_path(message_id))
    if invocation_id is not None and message_id is None:
        return session_path(session, "invocations", escape_path(invocation_id) + of_invocation)
    raise RequestInvalid("Neither a message nor an invocation is named, or both are.", fix="Pass message_id or invocation_id.")


def _body(**given: Any) -> dict[str, Any]:
    """Returns the arguments that are not None."""
    return {name: value for name, value in given.items() if value is not None}
