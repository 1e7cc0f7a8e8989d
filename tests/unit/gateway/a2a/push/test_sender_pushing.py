"""Who is to be told is taken over, told in order, and given back."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")

from push_play import Receiver, receiving
from runner_play import Gate, ask, runners_in

from turnwise import AgentContext, Runner, agent
from turnwise.access.address_guard import AddressGuard
from turnwise.access.api_keys import caller_of, new_key
from turnwise.facts.callers import Caller
from turnwise.facts.gateway import GatewayConfig
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.limits import ProcessConfig
from turnwise.gateway.a2a.push import Pusher, PushStream, PushTransport, running_pusher
from turnwise.gateway.front import Front
from turnwise.gateway.server import front_for
from turnwise.ports.pushes import Push, PushConfig, Pushes, PushPlace
from turnwise.ports.stores import Lease

ADA = Caller(id="a", user="ada")
SOON = ProcessConfig(recovery_seconds=0.02, lease_seconds=1.0)
LEASE = Lease("me", 60.0)
MakeRunner = Callable[..., Runner]
WHOLE = ["TASK_STATE_WORKING", "One.", "Two.", "Three.", "TASK_STATE_COMPLETED"]


@agent
async def counter(message: str, context: AgentContext) -> str:
    """Counts to three, or asks."""
    if message == "ask":
        return (await context.ask("Why?")).text
    await context.say("One.")
    await context.say("Two.")
    return "Three."


@pytest.fixture
def make_runner(tmp_path: Path) -> Iterator[MakeRunner]:
    with runners_in(tmp_path) as make:
        yield lambda root=counter, process=SOON: make(root, process=process)


def kept_in(runner: Runner) -> Pushes:
    kept: Pushes = runner.store.pushes  # type: ignore[attr-defined]
    return kept


def courier() -> PushTransport:
    return PushTransport(AddressGuard(private=True))


async def put(runner: Runner, receiver: Receiver, message: str = "m", id_: str = "p", path: str = "/") -> None:
    config = PushConfig(id=id_, url=receiver.url(path), caller=ADA)
    assert await kept_in(runner).put(runner.key("ada", "s"), message, config, after=0, most=9)


async def claimed(runner: Runner) -> Push:
    (push,) = await kept_in(runner).claim("app", LEASE, limit=9)
    return push


def teller(runner: Runner) -> PushStream:
    return PushStream(front_for(runner, GatewayConfig()), kept_in(runner), courier(), ())


async def test_what_is_not_taken_is_given_up_and_the_next_is_told(
    make_runner: MakeRunner, caplog: pytest.LogCaptureFixture
) -> None:
    runner = make_runner()
    await ask(runner, "hello", message_id="m")
    async with receiving([500, 404]) as receiver:
        await put(runner, receiver, path="/?key=s3cret")
        push = await claimed(runner)
        assert await teller(runner).send(push, LEASE.holder) is None
    assert receiver.told == WHOLE[2:]
    assert caplog.text.count("to 127.0.0.1 was given up") == 2
    assert "s3cret" not in caplog.text


async def test_who_takes_nothing_is_tried_once_for_each_from_then_on(make_runner: MakeRunner) -> None:
    runner = make_runner()
    await ask(runner, "hello", message_id="m")
    async with receiving([500] * 6 + [200, 500, 500]) as receiver:
        await put(runner, receiver)
        front = front_for(runner, GatewayConfig())
        patient = PushStream(front, kept_in(runner), courier(), (0.0, 0.0, 0.0))
        assert await patient.send(await claimed(runner), LEASE.holder) is None
    assert receiver.told == ["Three.", "TASK_STATE_COMPLETED"], "4 tries, 1, 1; then it takes one, and is waited for again"
    assert receiver.asked == 10


async def test_what_was_told_is_not_told_again(make_runner: MakeRunner) -> None:
    runner = make_runner()
    await ask(runner, "hello", message_id="m")
    async with receiving() as receiver:
        await put(runner, receiver)
        push = await claimed(runner)
        assert await teller(runner).send(push._replace(told=2), LEASE.holder) is None
        assert receiver.told == WHOLE[2:]
        assert await teller(runner).send(push._replace(told=4), LEASE.holder) is None
        assert receiver.told == WHOLE[2:]


async def test_who_lost_it_stops(make_runner: MakeRunner) -> None:
    runner = make_runner()
    await ask(runner, "hello", message_id="m")
    async with receiving() as receiver:
        await put(runner, receiver)
        push = await claimed(runner)
        assert await teller(runner).send(push, "another") == -1
        assert receiver.told == WHOLE[:1]


async def test_what_waits_is_looked_at_again_when_there_is_more(make_runner: MakeRunner) -> None:
    runner = make_runner()
    await ask(runner, "ask", message_id="m")
    async with receiving() as receiver:
        await put(runner, receiver)
        push = await claimed(runner)
        assert await teller(runner).send(push, LEASE.holder) == 2
        assert receiver.told == ["TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED"]


async def test_who_may_write_there_hears_how_it_ended_before_it_began(make_runner: MakeRunner) -> None:
    """What he was let set up is told, though he may not read sessions."""
    gate, writer = Gate(), ADA.replace(scopes=("messages:write",))
    runner = make_runner(gate.agent)
    await runner.start("one", user="ada", session="s", message_id="m1")
    await gate.began.wait()
    second = await runner.start("two", user="ada", session="s", message_id="m")
    await second.cancel()
    async with receiving() as receiver:
        config = PushConfig(id="p", url=receiver.url(), caller=writer)
        assert await kept_in(runner).put(runner.key("ada", "s"), "m", config, after=0, most=9)
        assert await teller(runner).send(await claimed(runner), LEASE.holder) is None
        assert receiver.told == ["TASK_STATE_CANCELED"]
    gate.go.set()


async def test_what_was_taken_back_is_told_no_more(make_runner: MakeRunner) -> None:
    runner = make_runner()
    result = await ask(runner, "ask", message_id="m")
    async with receiving() as receiver:
        await put(runner, receiver)
        push = (await claimed(runner))._replace(told=2)
        await runner.sessions.rewind(runner.key("ada", "s"), result.invocation_id)
        assert await teller(runner).send(push, LEASE.holder) is None
        await runner.sessions.delete(runner.key("ada", "s"))
        assert await teller(runner).send(push, LEASE.holder) is None
        assert receiver.told == []


@asynccontextmanager
async def pusher_of(front: Front, kept: Pushes) -> AsyncIterator[Pusher]:
    """One at work, that is ended without giving back anything."""
    pusher = Pusher(front, kept, courier(), ())
    work = asyncio.create_task(pusher.run())
    yield pusher
    work.cancel()
    await asyncio.wait([work])


async def test_what_it_does_not_know_that_it_has_it_gives_back(make_runner: MakeRunner) -> None:
    """A claim may be done, and its answer lost."""

    class Lossy:
        """Loses the answer to the first claim."""

        def __init__(self, kept: Pushes) -> None:
            self._kept, self._lost = kept, False

        def __getattr__(self, name: str) -> object:
            return getattr(self._kept, name)

        async def claim(self, app: str, lease: Lease, *, limit: int) -> object:
            found = await self._kept.claim(app, lease, limit=limit)
            if self._lost or len(found) < 2:
                return found
            self._lost = True
            return found[:1]

    gate = Gate()
    runner = make_runner(gate.agent)
    await runner.start("hello", user="ada", session="s", message_id="m")
    await gate.began.wait()
    async with receiving() as one, receiving() as two:
        await put(runner, one, id_="p1")
        await put(runner, two, id_="p2")
        front = front_for(runner, GatewayConfig())
        async with pusher_of(front, Lossy(kept_in(runner))) as pusher:  # type: ignore[arg-type]
            await asyncio.gather(one.until(1), two.until(1))
            gate.go.set()
            await asyncio.gather(one.until_over(), two.until_over())
            await pusher.close()


async def test_it_keeps_its_claim_while_it_tells(make_runner: MakeRunner) -> None:
    """A run that takes longer than a lease is told by one."""
    gate = Gate()
    first, second = make_runner(gate.agent), make_runner(gate.agent)
    async with receiving() as receiver:
        await first.start("hello", user="ada", session="s", message_id="m")
        await put(first, receiver)
        async with (
            running_pusher(front_for(first, GatewayConfig()), courier()),
            running_pusher(front_for(second, GatewayConfig()), courier()),
        ):
            await receiver.until(1)
            await asyncio.sleep(1.5 * SOON.lease_seconds)
            gate.go.set()
            assert await receiver.until_over() == ["TASK_STATE_WORKING", "answer to hello", "TASK_STATE_COMPLETED"]


async def test_it_keeps_its_claim_however_seldom_it_looks(make_runner: MakeRunner) -> None:
    gate, seldom = Gate(), ProcessConfig(recovery_seconds=60.0, lease_seconds=0.6)
    runner = make_runner(gate.agent, seldom)
    async with receiving() as receiver:
        await runner.start("hello", user="ada", session="s", message_id="m")
        await put(runner, receiver)
        async with running_pusher(front_for(runner, GatewayConfig()), courier()):
            await receiver.until(1)
            await asyncio.sleep(2 * seldom.lease_seconds)
            assert list(await kept_in(runner).claim("app", LEASE, limit=9)) == []
            gate.go.set()
            await receiver.until_over()


async def test_one_that_is_set_up_anew_is_told_in_place_of_the_old_one(make_runner: MakeRunner) -> None:
    class Watched:
        """Says when it was noted how far somebody was told, and when it was looked at whether he still has it."""

        def __init__(self, kept: Pushes) -> None:
            self._kept, self.noted, self.checked = kept, asyncio.Event(), asyncio.Event()

        def __getattr__(self, name: str) -> object:
            return getattr(self._kept, name)

        async def tell(self, place: PushPlace, holder: str, told: int) -> bool:
            is_his = await self._kept.tell(place, holder, told)
            self.noted.set()
            return is_his

        async def held(self, holder: str) -> Collection[PushPlace]:
            held = await self._kept.held(holder)
            self.checked.set()
            return held

    gate = Gate()
    runner = make_runner(gate.agent)
    await runner.start("hello", user="ada", session="s", message_id="m")
    async with receiving() as old, receiving() as new:
        await put(runner, old)
        front = front_for(runner, GatewayConfig())
        front.state.push_feed.kept = watched = Watched(kept_in(runner))  # type: ignore[assignment]
        async with running_pusher(front, courier()):
            await asyncio.gather(watched.noted.wait(), watched.checked.wait())
            await put(runner, new)
            await new.until(1)
            gate.go.set()
            assert await new.until_over() == ["TASK_STATE_WORKING", "answer to hello", "TASK_STATE_COMPLETED"]
    assert old.told == ["TASK_STATE_WORKING"], "the old one is nobody's business any more"


async def test_a_key_that_is_revoked_in_the_middle_hears_no_more(make_runner: MakeRunner) -> None:
    gate, issuer = Gate(), SystemIssuer()
    runner = make_runner(gate.agent)
    keys, (_, key) = runner.store.keys, new_key("a key", issuer.now(), user="ada")  # type: ignore[attr-defined]
    await keys.add("app", key)
    await runner.start("hello", user="ada", session="s", message_id="m")
    async with receiving() as receiver:
        config = PushConfig(id="p", url=receiver.url(), caller=caller_of(key))
        assert await kept_in(runner).put(runner.key("ada", "s"), "m", config, after=0, most=9)
        telling = asyncio.create_task(teller(runner).send(await claimed(runner), LEASE.holder))
        await receiver.until(1)
        await keys.expire("app", key.id, issuer.now())
        gate.go.set()
        assert await telling is None
        assert receiver.told == ["TASK_STATE_WORKING"]


async def test_a_defect_does_not_end_it(make_runner: MakeRunner, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be read of one is nobody else's trouble, and not for ever."""

    secret = "-".join("secret")

    class Broken:
        """Cannot read what it finds, once."""

        def __init__(self, kept: Pushes) -> None:
            self._kept, self._broken = kept, True

        def __getattr__(self, name: str) -> object:
            return getattr(self._kept, name)

        async def claim(self, app: str, lease: Lease, *, limit: int) -> object:
            if self._broken:
                self._broken = False
                PushConfig.model_validate_json(f'{{"id": "p", "token": ["{secret}"]}}')
            return await self._kept.claim(app, lease, limit=limit)

    runner = make_runner()
    await ask(runner, "hello", message_id="m")
    async with receiving() as receiver:
        await put(runner, receiver)
        front = front_for(runner, GatewayConfig())
        front.state.push_feed.kept = Broken(kept_in(runner))  # type: ignore[assignment]
        async with running_pusher(front, courier()):
            assert await receiver.until_over() == WHOLE
    assert "ValidationError" in caplog.text
    assert secret not in caplog.text


async def test_the_end_gives_back_what_was_not_told(make_runner: MakeRunner) -> None:
    gate = Gate()
    runner = make_runner(gate.agent)
    async with receiving() as receiver:
        await runner.start("hello", user="ada", session="s", message_id="m")
        await put(runner, receiver)
        async with running_pusher(front_for(runner, GatewayConfig()), courier()):
            await receiver.until(1)
            assert list(await kept_in(runner).claim("app", LEASE, limit=9)) == []
        assert (await claimed(runner)).told == 0, "it goes on from where all was told"
        gate.go.set()


async def test_a_store_without_notifications_is_left_alone(make_runner: MakeRunner) -> None:
    front = front_for(make_runner(), GatewayConfig())
    front.state.push_feed.kept = None
    async with running_pusher(front):
        await asyncio.sleep(0)
