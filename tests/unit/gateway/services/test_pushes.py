"""Who is to be told, by whoever may send messages there."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from runner_play import Gate, ask, runners
from services_play import shared_state

from turnwise import Runner, SqlSessionStore
from turnwise.access.api_keys import caller_of, new_key
from turnwise.facts.callers import Caller
from turnwise.facts.errors import Forbidden, InvocationMissing, RequestInvalid
from turnwise.facts.limits import RunConfig
from turnwise.gateway.services import Services, SharedState
from turnwise.gateway.services.pushes import MAX_CONFIGS, Pushes, PushFeed
from turnwise.ports.pushes import PushConfig, PushPlace
from turnwise.testing.fakes import CountingIssuer

ADA, BOB = Caller(id="a", user="ada"), Caller(id="b", user="bob")
SERVICE = Caller(id="s", acts_for_users=True)
OPERATOR = Caller(id="o", role="operator", user="op")
MakeRunner = Callable[..., Runner]


@pytest.fixture
def make_runner() -> Iterator[MakeRunner]:
    with runners(store=lambda: SqlSessionStore("sqlite://")) as make:
        yield make


@pytest.fixture
def gate() -> Gate:
    gate = Gate()
    gate.go.set()
    return gate


def a_config(id_: str = "p", **fields: Any) -> PushConfig:
    return PushConfig(id=id_, **{"url": "https://host.example/", "caller": BOB, **fields})


def pushes(runner: Runner, state: SharedState | None = None) -> Callable[..., Pushes]:
    shared = state or shared_state(runner, CountingIssuer())
    return lambda caller, named=None: Services(shared, caller, named).pushes


def feed(runner: Runner) -> PushFeed:
    return PushFeed(runner, CountingIssuer())


async def test_it_is_kept_for_who_asks_and_gets_an_id(make_runner: MakeRunner, gate: Gate) -> None:
    runner = make_runner(gate.agent)
    await ask(runner, "hello", message_id="m")
    state = shared_state(runner, CountingIssuer())
    door = pushes(runner, state)
    assert not state.push_feed.news.is_set()
    kept = await door(ADA).put("s", "m", a_config(""), after=0)
    assert (kept.id, kept.caller) == ("push-1", ADA), "never for whom somebody says"
    assert state.push_feed.news.is_set()
    other = await door(SERVICE, "ada").put("s", "m", a_config("z"), after=0)
    assert list(await door(ADA).list("s", "m")) == [kept, other]
    for _ in range(2):
        await door(ADA).remove("s", "m", "z")
    assert list(await door(ADA).list("s", "m")) == [kept]


async def test_only_who_may_write_there_sees_them(make_runner: MakeRunner, gate: Gate) -> None:
    """They hold secrets: who may only watch does not read them."""
    runner = make_runner(gate.agent)
    await ask(runner, "hello", message_id="m")
    door = pushes(runner)
    await door(ADA).put("s", "m", a_config(), after=0)
    for caller in (BOB, OPERATOR, ADA.replace(scopes=("sessions:read",))):
        for call in (
            lambda caller=caller: door(caller, "ada").put("s", "m", a_config(), after=0),
            lambda caller=caller: door(caller, "ada").list("s", "m"),
            lambda caller=caller: door(caller, "ada").remove("s", "m", "p"),
        ):
            with pytest.raises(Forbidden):
                await call()
    for session, message in (("s", "m"), ("t", "m"), ("s", "other"), ("s", ""), ("s", "\0")):
        with pytest.raises(InvocationMissing, match="There is no such message"):
            await door(BOB).list(session, message)
        with pytest.raises(InvocationMissing, match="There is no such message"):
            await door(BOB).put(session, message, a_config(), after=0)


@pytest.mark.parametrize(
    "fields",
    [
        {"id_": "x" * 201},
        {"id_": "a\0"},
        {"url": f"https://host.example/{'x' * 2048}"},
        {"token": "x" * 1025},
        {"token": "a\nb"},
        {"token": " a"},
        {"token": "ä"},
        {"scheme": "x" * 65},
        {"credentials": "x" * 4097},
        {"credentials": "a\r\nX-Other: b"},
    ],
    ids=repr,
)
async def test_what_cannot_be_sent_is_not_kept(make_runner: MakeRunner, gate: Gate, fields: dict[str, Any]) -> None:
    runner = make_runner(gate.agent)
    await ask(runner, "hello", message_id="m")
    with pytest.raises(RequestInvalid):
        await pushes(runner)(ADA).put("s", "m", a_config(**fields), after=0)
    assert list(await pushes(runner)(ADA).list("s", "m")) == []


async def test_a_message_has_so_many_and_no_more(make_runner: MakeRunner, gate: Gate) -> None:
    runner = make_runner(gate.agent)
    await ask(runner, "hello", message_id="m")
    door = pushes(runner)
    for number in range(MAX_CONFIGS):
        await door(ADA).put("s", "m", a_config(f"p{number}"), after=0)
    await door(ADA).put("s", "m", a_config("p0", token="new"), after=0)
    with pytest.raises(RequestInvalid, match="10 configurations exist"):
        await door(ADA).put("s", "m", a_config("more"), after=0)


async def test_what_waits_in_line_is_followed_once_it_is_begun(make_runner: MakeRunner) -> None:
    gate = Gate()
    runner = make_runner(gate.agent)
    place = PushPlace(runner.key("ada", "s"), "m2", "p")
    door = feed(runner)
    assert await door.follow(place) is None, "there is no such message"
    first = await runner.start("one", user="ada", session="s", message_id="m1")
    await gate.began.wait()
    await runner.start("two", user="ada", session="s", message_id="m2")
    following = asyncio.create_task(door.follow(place))
    gate.go.set()
    followed = await following
    assert followed is not None
    assert [event.text async for event in followed.invocation.events() if not event.partial] == ["two", "answer to two"]
    assert followed.invocation.id != first.id


async def test_what_was_taken_out_of_the_line_is_followed_no_more(make_runner: MakeRunner) -> None:
    gate = Gate()
    runner = make_runner(gate.agent, config=RunConfig())
    await runner.start("one", user="ada", session="s", message_id="m1")
    await gate.began.wait()
    second = await runner.start("two", user="ada", session="s", message_id="m2")
    following = asyncio.create_task(feed(runner).follow(PushPlace(runner.key("ada", "s"), "m2", "p")))
    await asyncio.sleep(0)
    await second.cancel()
    assert await following is None
    gate.go.set()


async def test_who_lost_his_key_hears_no_more(make_runner: MakeRunner, gate: Gate) -> None:
    runner, issuer = make_runner(gate.agent), CountingIssuer()
    _, key = new_key("a key", issuer.now(), user="ada")
    keys, door = runner.store.keys, feed(runner)  # type: ignore[attr-defined]
    assert not await door.is_still_authorized(caller_of(key))
    await keys.add("app", key)
    assert await door.is_still_authorized(caller_of(key))
    assert await door.is_still_authorized(Caller(id="token:ada", user="ada")), "of a token nothing is kept"
    await keys.expire("app", key.id, issuer.now())
    assert not await door.is_still_authorized(caller_of(key))
