"""The client and a gateway over real sockets: sessions, artifacts, decisions and agents."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from gateway_play import Served, key_for, served
from runner_play import Gate, soon

from turnwise import AgentContext, MessageContext, Runner, agent
from turnwise.client import Client
from turnwise.client.resources import PAGE
from turnwise.facts.errors import (
    ArtifactName,
    ArtifactTooLarge,
    Forbidden,
    InvocationMissing,
    NothingHere,
    RequestInvalid,
    SessionBusy,
    SessionExists,
    SessionMissing,
    StorageUsed,
)
from turnwise.facts.gateway import AuthConfig, CallerLimits, GatewayConfig
from turnwise.facts.limits import Limits, RunConfig
from turnwise.facts.memory import Entity
from turnwise.stores.artifacts.local import InMemoryArtifactStore

MakeRunner = Callable[..., Runner]
MANY = GatewayConfig(limits=CallerLimits(requests=100_000))


@agent(patterns=["order"], description="Knows orders.", roles=["staff"])
async def orders(message: str) -> str:
    return "on its way"


@agent(children=[orders], description="Answers.")
async def desk(message: str, context: AgentContext) -> str:
    context.state["last"] = message
    return f"You said {message}"


async def with_key(runner: Runner, gateway: Served, **rights: object) -> Client:
    """A client with a new key of these rights."""
    return Client(gateway.address, key=(await key_for(runner, **rights))["Authorization"].removeprefix("Bearer "))


async def test_a_sessions_life(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as gateway, Client(gateway.address) as client:
        made = await client.sessions.create("s 1", state={"language": "en", "user:name": "Ada"})
        assert (made.id, made.user, made.last_sequence, made.busy) == ("s 1", "local", 0, False)
        with pytest.raises(SessionExists):
            await client.sessions.create("s 1")
        assert (await client.sessions.create()).id.startswith("session-")
        one = await client.send("s 1", "one")
        two = await client.send("s 1", "two")
        assert one.invocation_id is not None
        assert two.invocation_id is not None
        shown = await client.sessions.get("s 1")
        assert (shown.turns, shown.active_agent, shown.running, shown.waits) == (2, "desk", [], [])
        state = await client.sessions.state("s 1")
        assert state.state == {"language": "en", "user:name": "Ada", "last": "two"}
        copy = await client.sessions.fork("s 1", before_invocation_id=two.invocation_id)
        assert copy.id != "s 1"
        texts = [event.text async for event in client.sessions.events(copy.id) if event.text]
        assert texts == ["one", "You said one"]
        assert (await client.sessions.fork("s 1", "s 2")).id == "s 2"
        assert (await client.sessions.rewind("s 1", two.invocation_id)).last_sequence > shown.last_sequence
        assert (await client.sessions.write_state("s 1", {"n": 1, "m": None})).state["n"] == 1
        assert (await client.sessions.state("s 1")).state["n"] == 1
        assert (await client.sessions.state("s 1")).state["last"] == "one"
        with pytest.raises(InvocationMissing):
            await client.sessions.rewind("s 1", two.invocation_id)
        await client.sessions.delete("s 1")
        await client.sessions.delete("s 1")
        with pytest.raises(SessionMissing):
            await client.sessions.get("s 1")
        await client.sessions.delete_user("local")
        assert [each async for each in client.sessions.list()] == []


async def test_a_log_is_read_as_far_as_it_is_wanted(make_runner: MakeRunner) -> None:
    async with served(make_runner(desk)) as gateway, Client(gateway.address) as client:
        one = await client.send("s", "one")
        two = await client.send("s", "two")
        assert two.invocation_id is not None
        every = [event async for event in client.sessions.events("s")]
        numbers = [event.sequence for event in every]
        assert numbers == list(range(1, len(every) + 1))
        assert [event async for event in client.sessions.events("s", after=1, before=3)] == every[1:2]
        assert await client.sessions.last_events("s", 2) == tuple(every[-2:])
        of_one = [event async for event in client.sessions.events("s", invocation_id=one.invocation_id)]
        assert of_one == every[: len(of_one)]
        await client.sessions.rewind("s", two.invocation_id)
        seen = [event.text async for event in client.sessions.events("s") if event.text]
        hidden = [event.text async for event in client.sessions.events("s", hidden=True) if event.text]
        assert (seen, hidden) == (["one", "You said one"], ["one", "You said one", "two", "You said two"])
        assert [event async for event in client.sessions.events("none")] == []


async def test_lists_that_are_longer_than_a_page(make_runner: MakeRunner) -> None:
    runner = make_runner(desk)
    async with served(runner, MANY) as gateway, Client(gateway.address) as client:
        for number in range(PAGE + 1):
            await runner.sessions.create(runner.key("local", f"s{number:03}"))
        listed = [row.id async for row in client.sessions.list()]
        assert listed == [f"s{number:03}" for number in range(PAGE + 1)]
        other = client.for_user("bob")
        await other.sessions.create("s-bob")
        assert [row.id async for row in other.sessions.list()] == ["s-bob"]
        every = [(row.user, row.id) async for row in client.sessions.list(all_users=True)]
        assert every == [("bob", "s-bob"), *(("local", id_) for id_ in listed)]


async def test_what_answers_cannot_be_deleted(make_runner: MakeRunner) -> None:
    gate = Gate()
    async with served(make_runner(gate.agent)) as gateway, Client(gateway.address) as client:
        accepted = await client.send("s", "hi", wait=False)
        await soon(gate.began.wait())
        with pytest.raises(SessionBusy):
            await client.sessions.delete("s")
        gate.go.set()
        await client.find("s", message_id=accepted.message_id, wait=True)
        await client.sessions.delete("s")


async def test_files_are_kept_in_versions(make_runner: MakeRunner) -> None:
    config, every_byte = RunConfig(limits=Limits(blob_bytes=1_000)), bytes(range(256))
    runner = make_runner(desk, artifacts=InMemoryArtifactStore(), config=config)
    async with served(runner) as gateway, Client(gateway.address) as client:
        with pytest.raises(SessionMissing):
            await client.artifacts.put("s", "a.txt", b"")
        await client.sessions.create("s")
        put = await client.artifacts.put("s", "letters/to ä.bin", every_byte)
        assert (put.name, put.version, put.mime_type, put.size) == ("letters/to ä.bin", 1, "application/octet-stream", 256)
        await client.artifacts.put("s", "letters/to ä.bin", b"", mime_type="text/plain; charset=utf-8")
        await client.artifacts.put("s", "user:mine.txt", b"mine")
        first = await client.artifacts.get("s", "letters/to ä.bin", version=1)
        assert (first.data, first.info._asdict()) == (every_byte, put.model_dump())
        latest = await client.artifacts.get("s", "letters/to ä.bin")
        assert (latest.data, latest.info.version, latest.info.mime_type) == (b"", 2, "text/plain; charset=utf-8")
        listed = [(each.name, each.version) for each in await client.artifacts.list("s")]
        assert sorted(listed) == [("letters/to ä.bin", 2), ("user:mine.txt", 1)]
        assert [each.version for each in await client.artifacts.versions("s", "letters/to ä.bin")] == [1, 2]
        await client.artifacts.delete("s", "letters/to ä.bin")
        await client.artifacts.delete("s", "letters/to ä.bin")
        with pytest.raises(NothingHere):
            await client.artifacts.get("s", "letters/to ä.bin")
        with pytest.raises(ArtifactName):
            await client.artifacts.put("s", "../../etc/passwd", b"")
        with pytest.raises(ArtifactTooLarge):
            await client.artifacts.put("s", "large", bytes(1_001))


async def test_decisions_are_searched_explained_and_labelled(make_runner: MakeRunner) -> None:
    """E1, E4."""
    async with served(make_runner(desk, policy="staples")) as gateway, Client(gateway.address) as client:
        await client.send("s", "my order", context=MessageContext(roles=("staff",)))
        await client.send("t", "my order")
        found = [(each.session_id, each.selection.agent) async for each in client.decisions.search()]
        assert found == [("t", "desk"), ("s", "orders")]
        (one,) = [each async for each in client.decisions.search(session="s")]
        (two,) = [each async for each in client.decisions.search(agent="desk", method="default_fallback")]
        assert (one.sequence, two.session_id) == (1, "t")
        explained = await client.decisions.explain("s", one.sequence)
        assert explained == one
        assert explained.selection.verdicts
        late, sure = one.created_at + timedelta(days=1), {"min_confidence": 0.5, "max_confidence": 1.0, "words": "order"}
        narrow = {
            "since": one.created_at,
            "until": late,
            "labelled": False,
            "policy": one.selection.fingerprint,
            "outcome": "chosen",
        }
        assert [each async for each in client.decisions.search(agent="orders", **narrow, **sure)] == [one]  # type: ignore[arg-type]
        assert [each async for each in client.decisions.search(since=late)] == []
        await client.decisions.label("s", one.sequence, "desk")
        assert [each.label async for each in client.decisions.search(contradicted=True, label="desk")] == ["desk"]
        assert (await client.decisions.explain("s", one.sequence)).label == "desk"
        await client.decisions.label("s", one.sequence, None)
        assert (await client.decisions.explain("s", one.sequence)).label is None
        with pytest.raises(RequestInvalid):
            await client.decisions.label("s", one.sequence, "nobody")
        with pytest.raises(InvocationMissing):
            await client.decisions.explain("s", 99)


async def test_agents_are_those_that_the_credential_reaches(make_runner: MakeRunner) -> None:
    """C20: others are as if they did not exist."""
    runner = make_runner(desk)
    async with (
        served(runner, GatewayConfig(auth=AuthConfig())) as gateway,
        await with_key(runner, gateway, user="ann") as of_ann,
        await with_key(runner, gateway, user="bob", agent_roles=("staff",)) as of_bob,
        await with_key(runner, gateway, role="operator") as of_op,
    ):
        assert [each.name async for each in of_ann.agents.list()] == ["desk"]
        assert [each.name async for each in of_bob.agents.list()] == ["desk", "orders"]
        assert (await of_bob.agents.get("orders")).parent == "desk"
        assert (await of_bob.agents.get("desk")).matching is None
        assert (await of_op.agents.get("orders")).matching is not None
        for name in ("orders", "nobody", "a/b", ".."):
            with pytest.raises(NothingHere, match="no agent"):
                await of_ann.agents.get(name)
        with pytest.raises(Forbidden):
            await of_ann.decisions.label("s", 1, "desk")


async def test_overviews_of_sessions_and_decisions(make_runner: MakeRunner) -> None:
    """K2"""
    async with served(make_runner(desk), MANY) as gateway, Client(gateway.address) as client:
        for session, text in (("s1", "hello"), ("s2", "parcel"), ("s1", "again")):
            await client.send(session, text)
        assert [(each.id, each.title, each.text) async for each in client.sessions.recent()] == [
            ("s1", "hello", "again"),
            ("s2", "parcel", "parcel"),
        ]
        assert [each.id async for each in client.sessions.recent(words="parcel", state="completed")] == ["s2"]
        await client.decisions.label_all([each async for each in client.decisions.search()], "desk")
        counts = await client.decisions.count(labelled=True)
        assert (counts.total, counts.agents[0].labelled) == (3, 3)
        await client.decisions.label_all([each async for each in client.decisions.search(session="s2")], None)
        assert (await client.decisions.count(labelled=False)).total == 1
        await client.decisions.rate("s2", 1, "down", agent="orders")
        assert (await client.decisions.explain("s2", 1)).label == "orders"
        await client.decisions.rate("s2", 1, None)
        assert (await client.decisions.explain("s2", 1)).label is None


async def test_the_memory_of_a_user(make_runner: MakeRunner) -> None:
    """What a user adds is the user's word. Another user's memory is as if it were not there."""
    runner = make_runner(desk, config=RunConfig(limits=Limits(memory_entries=4)))
    async with served(runner, GatewayConfig(auth=AuthConfig())) as gateway:
        ann = await with_key(runner, gateway, role="user", user="ann")
        async with ann, await with_key(runner, gateway, role="admin") as boss:
            tea = await ann.memories.add("ann", "I like green tea.")
            assert (tea.said_by, tea.kind, tea.span) == ("user", "fact", "long")
            order = Entity(type="order", value="Order 10412", normal="10412")
            await boss.memories.add("ann", "order 10412", id="o1", kind="entity", entity=order, span="short")
            black = await boss.memories.add("ann", "Ann likes black tea.", supersedes=[tea.id])
            assert black.said_by == "operator"
            assert [each.id async for each in ann.memories.list("ann")] == [black.id, "o1"]
            assert [each.id async for each in ann.memories.list("ann", kind="entity", span="short")] == ["o1"]
            assert [each.id async for each in ann.memories.export("ann")] == [black.id, "o1", tea.id]
            assert (await ann.memories.get("ann", "o1")).entity is not None
            (found,) = await ann.memories.search("ann", "which tea?", limit=1, said_by=["operator"])
            assert found.memory.id == black.id
            assert (await boss.memories.add("ann", "order 10412", id="o1")).id == "o1"
            await boss.memories.add("ann", "The fourth.")
            with pytest.raises(StorageUsed, match="4 entries"):
                await boss.memories.add("ann", "One too many.")
            assert [each async for each in boss.memories.list("ben")] == []
            with pytest.raises(NothingHere):
                await boss.memories.get("ben", "o1")
            assert await boss.memories.forget("ben", "o1") == 0
            for refused in (ann.memories.search("ben", "tea"), ann.memories.forget("ben", everything=True)):
                with pytest.raises(Forbidden):
                    await refused
            with pytest.raises(RequestInvalid):
                await ann.memories.search("ann", "tea " * 250_000)
            for wrong in ((), ("o1",)):
                with pytest.raises(ValueError, match="Name what to forget"):
                    await ann.memories.forget("ann", *wrong, session="s" if wrong else None)
            assert await ann.memories.forget("ann", "o1", black.id) == 3
            assert await ann.memories.forget("ann", session="s1") == 0
            assert await ann.memories.forget("ann", everything=True) == 1
