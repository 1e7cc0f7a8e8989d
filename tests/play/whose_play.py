"""Users of one gateway, what each has there, and every route of it as a request about somebody's things."""

import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import httpx
from access_play import SECRET
from gateway_play import Served, key_for, served

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.facts.callers import Permission
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig, JwtConfig
from turnwise.gateway.openai.responses.names import Name
from turnwise.stores.artifacts.in_memory import InMemoryArtifactStore
from turnwise.telemetry.metrics import Metrics

MUCH = 10**9
CONFIG = GatewayConfig(
    auth=AuthConfig(jwt=JwtConfig(algorithms=("HS256",), key=SECRET)),
    limits=CallerLimits(requests=MUCH, bytes=MUCH, runs=MUCH, failures=MUCH),
)
"""Keys and tokens count, and nobody has too much."""
Key = Mapping[str, str]
"""The headers that bring a credential."""
FILE, OF_USER = "a.txt", "user:b.txt"
REQUEST = {"X-Request-ID": "the-request"}


class Things(NamedTuple):
    """What somebody has: a session in which agent `asker` waits for a reply, its ids, and a response."""

    user: str
    session: str
    message: str
    invocation: str
    call: str
    response: str
    new: str
    sequence: int = 1


Made = Callable[[Things], Any]


def _nothing(_: Things) -> None:
    return None


class Asked(NamedTuple):
    """A request about somebody's things. permission: what it takes; None = no credential.

    names: where it says whose they are: in the query, in the body, in the path, or nowhere. ok: its status when all is well.
    everybody: without a name it is about everybody's, for who reaches all.
    """

    permission: Permission | None
    body: Made = _nothing
    query: Mapping[str, Any] = MappingProxyType({})
    headers: Mapping[str, str] = MappingProxyType({})
    names: Literal["query", "body", "path", ""] = "query"
    ok: int = 200
    everybody: bool = False


STREAM = {"Accept": "text/event-stream"}
_WAIT: Mapping[str, Any] = {"wait": True}


def _said(model: str = "desk") -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "hi"}]}


def _graph(t: Things, **more: Any) -> dict[str, Any]:
    return {"message": "hi", "session_id": t.session, "context": {"customer_id": t.user}, **more}


_INVOCATION = "/api/v1/sessions/{session_id}/invocations/{invocation_id}"
_ARTIFACT = "/api/v1/sessions/{session_id}/artifacts/{name}"
_DECISION = "/api/v1/sessions/{session_id}/decisions/{sequence}"

ROUTES: Mapping[tuple[str, str], tuple[Asked, ...]] = {
    ("GET", "/openapi.json"): (Asked(None, names=""),),
    ("GET", "/docs"): (Asked(None, names=""),),
    ("GET", "/docs/oauth2-redirect"): (Asked(None, names=""),),
    ("GET", "/api/v1/health"): (Asked(None, names=""),),
    ("GET", "/api/v1/ready"): (Asked(None, names=""),),
    ("GET", "/api/v1/version"): (Asked(None, names=""),),
    ("GET", "/metrics"): (Asked("metrics:read", names=""),),
    ("GET", "/api/v1/agents"): (Asked("agents:read", names=""),),
    ("GET", "/api/v1/agents/{agent_name}"): (Asked("agents:read", names=""),),
    ("GET", "/v1/models"): (Asked("agents:read", names=""),),
    ("GET", "/v1/models/{model}"): (Asked("agents:read", names=""),),
    ("POST", "/api/v1/sessions"): (
        Asked("sessions:write", lambda t: {"id": t.new, "state": {"a": 1}}, ok=201),
        Asked("sessions:write", lambda t: {"id": t.session}, ok=409),
    ),
    ("GET", "/api/v1/sessions"): (Asked("sessions:read"),),
    ("GET", "/api/v1/sessions/{session_id}"): (Asked("sessions:read"),),
    ("GET", "/api/v1/sessions/{session_id}/events"): (Asked("sessions:read"), Asked("sessions:read", query={"last": 3})),
    ("GET", "/api/v1/sessions/{session_id}/state"): (Asked("sessions:read"),),
    ("POST", "/api/v1/sessions/{session_id}/rewind"): (Asked("sessions:write", lambda t: {"invocation_id": t.invocation}),),
    ("POST", "/api/v1/sessions/{session_id}/fork"): (
        Asked("sessions:write", lambda t: {"id": t.new}, ok=201),
        Asked("sessions:write", lambda t: {"before_invocation_id": t.invocation}, ok=201),
    ),
    ("DELETE", "/api/v1/sessions/{session_id}"): (Asked("sessions:write", ok=204),),
    ("DELETE", "/api/v1/users/{user_id}"): (Asked("sessions:write", names="path", ok=204),),
    ("POST", "/api/v1/sessions/{session_id}/messages"): (
        Asked("messages:write", lambda t: {"content": "hi", "id": t.message}),
        Asked("messages:write", lambda _: {"content": "hi"}, headers=STREAM),
    ),
    ("GET", "/api/v1/sessions/{session_id}/messages/{message_id}"): (
        Asked("sessions:read"),
        Asked("sessions:read", query=_WAIT),
        Asked("sessions:read", headers=STREAM),
    ),
    ("POST", "/api/v1/select"): (Asked("sessions:read", lambda t: {"content": "hi", "session_id": t.session}),),
    ("GET", _INVOCATION): (Asked("sessions:read"), Asked("sessions:read", query=_WAIT)),
    ("GET", f"{_INVOCATION}/events"): (Asked("sessions:read"), Asked("sessions:read", headers=STREAM)),
    ("POST", f"{_INVOCATION}/cancel"): (Asked("invocations:cancel"),),
    ("POST", f"{_INVOCATION}/answer"): (Asked("messages:write", lambda t: {"call_id": t.call, "text": "this"}),),
    ("POST", f"{_INVOCATION}/regenerate"): (Asked("messages:write"),),
    ("GET", "/api/v1/sessions/{session_id}/artifacts"): (
        Asked("artifacts:read"),
        Asked("artifacts:read", query={"name": OF_USER}),
    ),
    ("PUT", _ARTIFACT): (Asked("artifacts:write", lambda _: b"other bytes", ok=201),),
    ("GET", _ARTIFACT): (Asked("artifacts:read"),),
    ("HEAD", _ARTIFACT): (Asked("artifacts:read"),),
    ("DELETE", _ARTIFACT): (Asked("artifacts:write", ok=204),),
    ("GET", "/api/v1/decisions"): (Asked("decisions:read", everybody=True),),
    ("GET", _DECISION): (Asked("decisions:read"),),
    ("PUT", f"{_DECISION}/label"): (Asked("decisions:label", lambda _: {"agent": "asker"}, ok=204),),
    ("POST", "/api/v1/graph-chat/chat"): (Asked("messages:write", _graph, names="body"),),
    ("POST", "/api/v1/graph-chat/execute-agent"): (
        Asked("messages:write", lambda t: _graph(t, agent_id="desk"), names="body"),
    ),
    ("POST", "/v1/chat/completions"): (
        Asked("messages:write", lambda _: _said()),
        Asked("messages:write", lambda t: _said() | {"metadata": {"session_id": t.session}}),
        Asked("messages:write", lambda t: _said() | {"metadata": {"session_id": t.session}, "stream": True}),
    ),
    ("POST", "/v1/responses"): (
        Asked("messages:write", lambda _: {"input": "hi"}),
        Asked("messages:write", lambda t: {"input": "hi", "previous_response_id": t.response}),
        Asked("messages:write", lambda t: {"input": "hi", "conversation": t.session, "stream": True}),
    ),
    ("POST", "/v1/responses/compact"): (
        Asked("sessions:read", lambda t: {"model": "desk", "previous_response_id": t.response}),
    ),
    ("POST", "/v1/responses/input_tokens"): (
        Asked("sessions:read", lambda t: {"input": "hi", "previous_response_id": t.response}),
        Asked("sessions:read", lambda t: {"input": "hi", "conversation": t.session}),
    ),
    ("GET", "/v1/responses/{response_id}"): (Asked("sessions:read"), Asked("sessions:read", query={"stream": True})),
    ("POST", "/v1/responses/{response_id}/cancel"): (Asked("invocations:cancel"),),
    ("GET", "/v1/responses/{response_id}/input_items"): (Asked("sessions:read"),),
    ("DELETE", "/v1/responses/{response_id}"): (Asked("sessions:write"),),
}
"""Every route over HTTP, and what can be asked there."""

Route = tuple[str, str]


def whose_runner(**options: Any) -> Runner:
    """A runner with agents `desk`, and `asker`, which asks."""

    @agent(patterns=["which"])
    async def asker(context: AgentContext) -> str:
        return f"You said {(await context.ask('Which one?')).text}"

    @agent(children=[asker])
    def desk(message: str) -> str:
        return f"You said {message}"

    made = {"root": desk, "store": SqlSessionStore("sqlite://"), "artifacts": InMemoryArtifactStore(), **options}
    return Runner(**made)


@asynccontextmanager
async def two_users(**options: Any) -> AsyncIterator[tuple[Served, Runner, Key, Key]]:
    """A gateway, and keys of ann's and bob's."""
    runner = whose_runner(**options)
    keys = await key_for(runner, user="ann"), await key_for(runner, user="bob")
    try:
        async with served(runner, CONFIG, metrics=Metrics()) as client:
            yield client, runner, *keys
    finally:
        await runner.close()


async def state_of(runner: Runner, user: str) -> Any:
    """All that is kept of a user."""
    kept, assets = [], runner.artifacts
    assert assets is not None
    for info in (await runner.store.list(runner.app, user=user, limit=MUCH)).items:
        kept.append((info, await runner.store.events(info.key, hidden=True), await assets.list(info.key)))
    return kept


async def things_of(runner: Runner, user: str) -> Things:
    """What that user has; each call makes more of it."""
    session, message, new = (f"{kind}-{secrets.token_hex(8)}" for kind in "smn")
    asked = await runner.start(f"which {words_of(user)}", user=user, session=session, message_id=message)
    result = await asked.result()
    assert runner.artifacts is not None
    for name in (FILE, OF_USER):
        await runner.artifacts.save(asked.session, name, words_of(user).encode(), mime_type="text/plain")
    (call,) = (event.actions.awaits.id for event in result.events if event.actions.awaits)
    return Things(user, session, message, result.invocation_id, call, Name(session, message).id, new)


def made_up(user: str) -> Things:
    """Ids like those of somebody's things, of which there are none."""

    def id_(kind: str) -> str:
        return f"{kind}-{secrets.token_hex(14)}"

    session, message, new = (f"{kind}-{secrets.token_hex(8)}" for kind in "smn")
    return Things(user, session, message, id_("invocation"), id_("wait"), Name(session, message).id, new)


def words_of(user: str) -> str:
    """What only that user, and who may read his things, is to see."""
    return f"the words of {user}"


async def ask(
    client: httpx.AsyncClient, route: Route, asked: Asked, things: Things, key: Key, *, named: bool = False
) -> httpx.Response:
    """That request with this credential; named: it says whose things they are."""
    method, template = route
    path = template.format(
        session_id=things.session,
        message_id=things.message,
        invocation_id=things.invocation,
        response_id=things.response,
        user_id=quote(things.user),
        sequence=things.sequence,
        name=FILE,
        agent_name="desk",
        model="desk",
    )
    query = dict(asked.query) | ({"user": things.user} if named and asked.names == "query" else {})
    body = asked.body(things)
    if asked.names == "body" and not named:
        body = {**body, "context": {}}
    sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
    return await client.request(method, path, params=query, headers={**REQUEST, **asked.headers, **key}, **sent)


class Seen(NamedTuple):
    """An answer, without what is another in every answer, and without the ids that were sent."""

    status: int
    headers: tuple[str, ...]
    body: str


_MASKS = (
    (re.compile(r"\b(session|message|invocation|event|wait|call|again)-[0-9a-f]{28}(-\d+)?"), r"<\1>"),
    (re.compile(r"\bchat(cmpl)?-[0-9a-f]{16,32}(-\d+)*"), "<chat>"),
    (re.compile(r"\b(resp|msg|fc|call|cmp|compaction)_[A-Za-z0-9_-]+"), r"<\1>"),
    (re.compile(r"\b(cmp|compaction)-[0-9a-f]{28}"), r"<\1>"),
    (re.compile(r'"encrypted_content":"[^"]*"'), '"encrypted_content"'),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r'"(created|created_at|completed_at)":\d+'), r'"\1"'),
    (re.compile(r'"ms":[0-9.e-]+'), '"ms"'),
)


def seen(answer: httpx.Response, things: Things) -> Seen:
    """What was answered."""
    body = answer.text
    for name, id_ in things._asdict().items():
        body = body.replace(id_, f"<{name}>") if isinstance(id_, str) else body
    for pattern, mask in _MASKS:
        body = pattern.sub(mask, body)
    return Seen(answer.status_code, tuple(sorted(answer.headers)), body)
