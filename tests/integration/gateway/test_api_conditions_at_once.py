"""`If-Match` and `Idempotency-Key` when two processes over one database are asked at the same moment (A33, A34)."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import permutations
from typing import Any

import httpx
import pytest
from gateway_play import Served, served
from runner_play import Gate

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.facts.limits import ProcessConfig
from turnwise.facts.selections import Verdict
from turnwise.ports.agent import Agent
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.policy import PolicySpec, StageSpec
from turnwise.testing.postgres import postgres_url

MakeRunner = Callable[..., Runner]
Write = Callable[[Served, str, dict[str, str]], Awaitable[httpx.Response]]
API = "/api/v1/sessions"
ROUNDS = 4


@agent
async def desk(message: str, context: AgentContext) -> str:
    context.state["n"] = context.state.get("n", 0) + 1
    return f"{message}, the {context.state['n']}."


async def _message(client: Served, session: str, given: dict[str, str]) -> httpx.Response:
    return await client.send_message("more", session, headers=given)


async def _state(client: Served, session: str, given: dict[str, str]) -> httpx.Response:
    return await client.patch(f"{API}/{session}/state", json={"state": {"a": 1}}, headers=given)


async def _rewind(client: Served, session: str, given: dict[str, str]) -> httpx.Response:
    body = {"invocation_id": await _invocation(client, session)}
    return await client.post(f"{API}/{session}/rewind", json=body, headers=given)


async def _regenerate(client: Served, session: str, given: dict[str, str]) -> httpx.Response:
    return await client.post(f"{API}/{session}/invocations/{await _invocation(client, session)}/regenerate", headers=given)


async def _delete(client: Served, session: str, given: dict[str, str]) -> httpx.Response:
    return await client.delete(f"{API}/{session}", headers=given)


async def _invocation(client: Served, session: str) -> str:
    events = (await client.get(f"{API}/{session}/events", params={"limit": 1})).json().get("events")
    return str(events[0]["invocation_id"]) if events else "deleted"


WRITES = (_message, _state, _rewind, _regenerate, _delete)


async def _if_match(client: Served, session: str) -> dict[str, str]:
    return {"If-Match": (await client.get(f"{API}/{session}")).headers["etag"]}


async def _revision(client: Served, session: str) -> str:
    return (await _if_match(client, session))["If-Match"].strip('"')


@asynccontextmanager
async def processes(
    make_runner: MakeRunner, root: Agent, database: str, count: int, **options: Any
) -> AsyncIterator[list[Served]]:
    """Gateways of this many runners over one database."""
    url = postgres_url() if database == "postgresql" else None
    async with AsyncExitStack() as stack:
        clients = []
        for _ in range(count):
            store = {"store": SqlSessionStore(url)} if url else {}
            clients.append(await stack.enter_async_context(served(make_runner(root, **options, **store))))
        yield clients


@pytest.mark.parametrize("first", WRITES)
@pytest.mark.parametrize(("database", "rounds"), [("sqlite", ROUNDS), ("postgresql", 2)])
async def test_of_two_writers_one_finds_the_revision(make_runner: MakeRunner, first: Write, database: str, rounds: int) -> None:
    """Each kind of write against each, in two processes; the loser gets 412, or learns that the other is at work."""
    async with processes(make_runner, desk, database, 2) as (one, two):
        for place, second in enumerate(WRITES * rounds):
            session = f"{first.__name__[1:]}-{place}"
            await one.send_message("hi", session)
            given = await _if_match(two, session)
            clients = (one, two) if place % 2 else (two, one)
            pair = zip((first, second), clients, strict=True)
            answers = await asyncio.gather(*(write(client, session, given) for write, client in pair))
            codes = sorted(answer.status_code for answer in answers)
            assert sum(code < 300 for code in codes) == 1, (second, [answer.text for answer in answers])
            assert codes[1] in (404, 409, 412), answers[1].text


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
@pytest.mark.parametrize("write", [_state, _message, _rewind])
async def test_the_loser_learns_both_revisions(make_runner: MakeRunner, database: str, write: Write) -> None:
    """The one that it expected and the one that the winner made, whichever process and whichever write came first."""
    async with processes(make_runner, desk, database, 2) as clients:
        for place in range(2 * ROUNDS):
            session = f"both-{write.__name__[1:]}-{place}"
            await clients[0].send_message("hi", session)
            given = await _if_match(clients[place % 2], session)
            writes = (_state, write)[:: 1 if place % 3 else -1]
            pair = zip(writes, clients, strict=True)
            answers = await asyncio.gather(*(write(client, session, given) for write, client in pair))
            won, lost = sorted(answers, key=lambda answer: answer.status_code)
            assert won.status_code < 300, won.text
            if lost.status_code == 409:  # the answer of the other is being written
                continue
            assert (lost.status_code, lost.json()["code"]) == (412, "request.precondition")
            expected = given["If-Match"].strip('"')
            named = re.findall(r"revision (\d+)", lost.json()["title"])
            assert named[0] == expected, lost.json()["title"]
            assert len(named) == 2 or "another write came first" in lost.json()["title"]
            if write is _state:
                assert named[1:] == [await _revision(clients[1], session)]


async def test_of_many_messages_one_is_accepted_also_while_others_wait(make_runner: MakeRunner) -> None:
    """Beside an answer that takes long, here or elsewhere, and where the process has no room: then they are queued."""
    gate = Gate()
    process = ProcessConfig(concurrency=1)
    async with served(make_runner(gate.agent, process=process)) as one, served(make_runner(gate.agent, process=process)) as two:
        busy = asyncio.create_task(one.send_message("slow", "busy"))
        await gate.began.wait()
        for session in ("busy", "idle"):
            if session == "idle":
                await one.post(API, json={"id": session})
            given = await _if_match(one, session)
            sends = [
                client.send_message(f"m{n}", session, headers=given, params={"wait": "false"})
                for n, client in enumerate((one, two, one, two))
            ]
            codes = sorted(answer.status_code for answer in await asyncio.gather(*sends))
            assert codes == [202, 412, 412, 412], session
        queued = {"If-Match": (await one.get(f"{API}/busy")).headers["etag"]}
        assert (await two.send_message("late", "busy", headers=queued)).status_code == 412
        assert (await two.send_message("late", "busy", params={"wait": "false"})).status_code == 202
        gate.go.set()
        assert (await busy).status_code == 200
        await one.front.state.tasks.settled()


async def test_a_fork_is_of_the_revision_that_was_expected(make_runner: MakeRunner) -> None:
    """A fork changes nothing, so that it may go with another write; then it holds what was there before."""
    async with served(make_runner(desk)) as one, served(make_runner(desk)) as two:
        for place in range(3 * ROUNDS):
            session = f"s-{place}"
            await one.send_message("hi", session)
            given = await _if_match(two, session)
            fork = one.post(f"{API}/{session}/fork", json={"id": f"copy-{place}"}, headers=given)
            answer, written = await asyncio.gather(fork, _message(two, session, given))
            assert written.status_code == 200
            assert answer.status_code in (201, 412)
            if answer.status_code == 201:
                assert (await one.get(f"{API}/copy-{place}")).json()["turns"] == 1


async def test_any_revision_is_one_of_a_session_that_exists(make_runner: MakeRunner) -> None:
    """`If-Match: *`: of two that delete one does; messages are all accepted."""
    async with served(make_runner(desk)) as one, served(make_runner(desk)) as two:
        given = {"If-Match": "*"}
        for place in range(ROUNDS):
            session = f"s-{place}"
            await one.send_message("hi", session)
            sent = await asyncio.gather(*(_message(client, session, given) for client in (one, two, one)))
            assert [answer.status_code for answer in sent] == [200] * 3
            gone = await asyncio.gather(*(_delete(client, session, given) for client in (one, two)))
            assert sorted(answer.status_code for answer in gone) == [204, 412]
            assert (await _message(two, session, given)).status_code == 412


class Slow:
    """A selector that asks elsewhere, so that the message is stored before its agent is known."""

    name = "slow"

    def asks(self, request: SelectionRequest) -> bool:
        return True

    async def select(self, request: SelectionRequest) -> Verdict:
        await asyncio.sleep(0)
        return Verdict(selector=self.name, outcome="chosen", agent="desk", reason="There is one.")


SLOW: dict[str, Any] = {
    "policy": PolicySpec(name="own", stages=(StageSpec(selector="slow"),)),
    "custom_selectors": {"slow": lambda _tree: Slow()},
}


@pytest.mark.parametrize("state", ["idle", "new", "answering", "no room", "slow selector", "postgresql"])
async def test_of_two_bodies_under_one_key_one_is_accepted(make_runner: MakeRunner, state: str) -> None:
    """And its text is answered, wherever it is answered."""
    gate, process = Gate(), ProcessConfig(concurrency=1)
    root = gate.agent if state in ("answering", "no room") else desk
    options: dict[str, Any] = {**SLOW} if state == "slow selector" else {}
    async with processes(make_runner, root, state, 3, process=process, **options) as clients:
        for place in range(ROUNDS):
            await _one_wins(clients, gate, state, place)


async def _one_wins(clients: Sequence[Served], gate: Gate, state: str, place: int) -> None:
    session, key = f"s-{place}", {"Idempotency-Key": f"k-{place}"}
    slow: asyncio.Task[httpx.Response] | None = None
    if state == "idle":
        await clients[0].send_message("hi", session)
    elif state in ("answering", "no room"):
        gate.began.clear()
        gate.go.clear()
        slow = asyncio.create_task(clients[0].send_message("slow", session if state == "answering" else f"other-{place}"))
        await gate.began.wait()
    order = [*permutations(range(3), 2)][place % 6]
    sends = [clients[at].send_message(text, session, headers=key) for text, at in zip("ab", order, strict=True)]
    sending = [asyncio.ensure_future(send) for send in sends]
    if slow is not None:
        await asyncio.wait(sending, return_when=asyncio.FIRST_COMPLETED, timeout=1)
        gate.go.set()
        await slow
    answers = await asyncio.gather(*sending)
    assert sorted(answer.status_code for answer in answers) == [200, 422], [answer.text for answer in answers]
    (text,) = (text for text, answer in zip("ab", answers, strict=True) if answer.status_code == 200)
    (refused,) = (answer for answer in answers if answer.status_code == 422)
    assert refused.json()["code"] == "request.key_reused"
    events = (await clients[2].get(f"{API}/{session}/events")).json()["events"]
    said = [event["content"]["parts"][0]["text"] for event in events if event["author"] == "user"]
    assert said.count(text) == 1
    assert len({"a", "b"} & set(said)) == 1
