"""Users of one gateway, what each has there, and how somebody asks about it."""

import re
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx
from access_play import SECRET
from gateway_play import Served, key_for, served
from whose_asked import FILE, OF_USER, Asked, Route, Things

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig, JwtConfig
from turnwise.gateway.a2a.request import TaskId
from turnwise.gateway.openai.responses.response import ResponseId
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.telemetry.metrics import Metrics

MUCH = 10**9
CONFIG = GatewayConfig(
    auth=AuthConfig(jwt=JwtConfig(algorithms=("HS256",), key=SECRET)),
    limits=CallerLimits(requests=MUCH, bytes=MUCH, runs=MUCH, failures=MUCH),
)
"""Keys and tokens count, and nobody has too much."""
Key = Mapping[str, str]
"""The headers that bring a credential."""
REQUEST = {"X-Request-ID": "the-request"}


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
    return Things(user, session, message, result.invocation_id, call, ResponseId(session, message).id, new)


def made_up(user: str) -> Things:
    """Ids like those of somebody's things, of which there are none."""

    def id_(kind: str) -> str:
        return f"{kind}-{secrets.token_hex(14)}"

    session, message, new = (f"{kind}-{secrets.token_hex(8)}" for kind in "smn")
    return Things(user, session, message, id_("invocation"), id_("wait"), ResponseId(session, message).id, new)


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
        policy_name="main",
        kind="agent",
        version=1,
        model="desk",
        app_name="app",
        artifact_name=FILE,
        version_id="0",
        event_id=things.message,
        task_id=TaskId(things.session, things.message).id,
        push_id="p",
        path="chat",
        hold_id="h",
        memory_id="nothing",
        experiment_name="none",
    )
    query = dict(asked.query) | ({"user": things.user} if named and asked.names == "query" else {})
    body = asked.body(things)
    if asked.names == "body" and not named:
        body = {**body, "context": {}}
    sent: dict[str, Any] = {"content": body} if isinstance(body, bytes) else {} if body is None else {"json": body}
    request = client.build_request(method, path, params=query, headers={**REQUEST, **asked.headers, **key}, **sent)
    answer = await client.send(request, stream=asked.endless)
    return await _first_of(answer) if asked.endless else answer


async def _first_of(answer: httpx.Response) -> httpx.Response:
    """The answer up to the first event, if it is a stream."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        await answer.aread()
        return answer
    text = ""
    async for chunk in answer.aiter_text():
        text += chunk
        if "\n\n" in text:
            break
    await answer.aclose()
    return httpx.Response(answer.status_code, headers=answer.headers, text=text)


class Seen(NamedTuple):
    """An answer, without what is another in every answer, and without the ids that were sent."""

    status: int
    headers: tuple[str, ...]
    body: str


_MASKS = (
    (re.compile(r"\b(session|message|invocation|event|wait|call|again)-[0-9a-f]{28}(-\d+)?"), r"<\1>"),
    (re.compile(r"\bchat(cmpl)?-[0-9a-f]{16,32}(-\d+)*"), "<chat>"),
    (re.compile(r"\b(resp|msg|fc|call|cmp|compaction|task)_[A-Za-z0-9_-]+"), r"<\1>"),
    (re.compile(r"\b(cmp|compaction)-[0-9a-f]{28}"), r"<\1>"),
    (re.compile(r'"encrypted_content":"[^"]*"'), '"encrypted_content"'),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r'"(created|created_at|completed_at)":\d+'), r'"\1"'),
    (re.compile(r'"ms":[0-9.e-]+'), '"ms"'),
)


def seen(answer: httpx.Response, things: Things, asked: Asked | None = None) -> Seen:
    """What was answered."""
    body = answer.text
    for name, id_ in things._asdict().items():
        body = body.replace(id_, f"<{name}>") if isinstance(id_, str) else body
    for pattern, mask in _MASKS:
        body = pattern.sub(mask, body)
    status = asked.status(answer) if asked else answer.status_code
    return Seen(status, tuple(sorted(answer.headers)), body)
