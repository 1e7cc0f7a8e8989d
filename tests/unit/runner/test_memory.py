"""What an app remembers by itself: things in messages, facts that a model finds, whole sessions."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from runner_play import ask, key, reason, runners_in

from turnwise import AgentContext, Limits, RunConfig, Runner, agent
from turnwise.facts.errors import ConfigError, MemoryFull, SessionMissing, StorageUsed
from turnwise.facts.memory import MemoryConfig, MemoryEntry
from turnwise.ports.guardrail import GuardrailVerdict
from turnwise.testing import BagOfWordsEncoder, FunctionGuardrail, ScriptedModel

Make = Callable[..., Runner]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with runners_in(tmp_path) as made:
        yield made


async def stored(runner: Runner, user: str = "ada", **options: bool) -> list[MemoryEntry]:
    return list((await runner.store.memory.recent("app", user, **options)).items)  # type: ignore[arg-type]


async def texts(runner: Runner) -> list[str]:
    return sorted(entry.text for entry in await stored(runner))


@agent(name="orders", description="Orders.", patterns=[r"order\s+(?P<order>\d+)"])
async def orders(message: str, context: AgentContext) -> str:
    return ", ".join(f"{each.entity.type} {each.entity.normal}" for each in await context.memory.entities() if each.entity)


def says(*facts: dict[str, object] | str) -> ScriptedModel:
    return ScriptedModel(*(fact if isinstance(fact, str) else json.dumps([fact]) for fact in facts))


async def test_messages_name_things(make: Make) -> None:
    """C14: codes, dates, addresses and declared things of each message, for minutes unless the app says longer."""
    runner = make(orders, memory=MemoryConfig())
    assert (await ask(runner, "Where is order 10412? I am ann@x.org", "one")).text == "email ann@x.org, order 10412"
    assert "order 10412" in (await ask(runner, "hello", "two")).text
    entry = next(each for each in await stored(runner) if each.entity and each.entity.type == "order")
    assert (entry.kind, entry.span, entry.said_by, entry.agent) == ("entity", "working", "user", "orders")
    assert entry.source is not None
    assert entry.source.sequence == 1
    await runner.sessions.rewind(key("one"), (await runner.store.events(key("one")))[0].invocation_id)
    assert await stored(runner) == []


async def test_things_are_off_without_a_configuration(make: Make) -> None:
    for options in ({}, {"memory": MemoryConfig(entities="off")}):
        runner = make(orders, **options)
        await ask(runner, "Where is order 10412?")
        assert await stored(runner) == []


async def test_guardrails_see_the_things_of_messages(make: Make) -> None:
    """C13."""

    def judge(place: str, text: str) -> GuardrailVerdict | None:
        return GuardrailVerdict("block", reason="No.") if place == "memory" and "ann" in text else None

    runner = make(orders, memory=MemoryConfig(), guardrails=[FunctionGuardrail("no ann", judge)])
    await ask(runner, "order 10412 for ann@x.org")
    assert await texts(runner) == ["order 10412"]


async def test_a_model_finds_facts_after_the_turn(make: Make) -> None:
    """G6: stored with the end of the turn, worked off after it; newer facts replace older ones."""
    model = says(
        {"fact": "She lives in Berlin.", "by": "user"},
        '```json\n[{"fact": "She lives in Rome.", "by": "user", "replaces": [1, 99, "x"]}, {"fact": ""}, 7]\n```',
        "[]",
    )
    runner = make(orders, memory=MemoryConfig(entities="off", model=model), encoder=BagOfWordsEncoder())
    for message in ("I live in Berlin", "I live in Rome now", "hello"):
        await ask(runner, message)
        await runner.recover()
    (fact,) = await stored(runner)
    assert (fact.text, fact.said_by, fact.kind) == ("She lives in Rome.", "user", "fact")
    assert len(await stored(runner, superseded=True)) == 2
    asked = model.requests[1].messages[-1].text
    assert "1. She lives in Berlin." in asked
    assert '"user: I live in Rome now"' in asked


async def test_a_rewind_drops_the_job_and_hides_its_facts(make: Make) -> None:
    """G2."""
    model = says({"fact": "She lives in Berlin."}, {"fact": "She has a cat."})
    runner = make(orders, memory=MemoryConfig(entities="off", model=model))
    await ask(runner, "I live in Berlin")
    await runner.recover()
    second = await ask(runner, "I have a cat")
    await runner.recover()
    assert len(await stored(runner)) == 2
    await runner.sessions.rewind(key(), second.invocation_id)
    assert await texts(runner) == ["She lives in Berlin."]


async def test_a_model_that_gives_no_list_changes_nothing(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    runner = make(orders, memory=MemoryConfig(entities="off", model=says("I note nothing.", "[[[", "{}", "[")))
    assert reason(await ask(runner, "I live in Berlin")) == "completed"
    await runner.recover()
    assert await stored(runner) == []
    assert "is retried" in caplog.text


async def test_sessions_are_added_on_request(make: Make) -> None:
    """Each message once; a rewind hides it."""
    model = says({"fact": "She asked for tea.", "by": "user"}, {"fact": "She asked for tea.", "by": "user"})
    runner = make(orders, memory=MemoryConfig(entities="off", model=model, ingest="on_request"))

    @agent(name="tea", description="Tea.")
    async def tea(message: str) -> str:
        return f"I heard: {message}"

    other = make(tea)
    await ask(other, "green tea please")
    last = await ask(other, "and cake")
    assert await stored(runner) == []
    assert await runner.memory.add_session(key()) == 5
    await runner.memory.add_session(key())
    assert await texts(runner) == sorted(
        ["I heard: and cake", "I heard: green tea please", "She asked for tea.", "and cake", "green tea please"]
    )
    assert {(each.kind, each.said_by) for each in await stored(runner)} >= {("message", "user"), ("message", "agent")}
    await runner.sessions.rewind(key(), last.invocation_id)
    assert await texts(runner) == ["I heard: green tea please", "green tea please"]
    with pytest.raises(SessionMissing):
        await runner.memory.add_session(key("nowhere"))


async def test_entries_are_encoded_after_the_turn(make: Make) -> None:
    @agent(name="notes", description="Notes.")
    async def notes(message: str, context: AgentContext) -> str:
        await context.memory.remember(message)
        return "noted"

    runner = make(notes, encoder=BagOfWordsEncoder())
    await ask(runner, "green tea")
    await runner.memory.idle()
    assert not await runner.store.memory.unencoded("app", "ada", BagOfWordsEncoder().fingerprint)
    other = _OtherEncoder()
    assert await runner.store.memory.unencoded("app", "ada", other.fingerprint), "another encoder has none yet"
    changed = make(notes, encoder=other)
    await ask(changed, "black tea")
    await changed.memory.idle()
    assert not await runner.store.memory.unencoded("app", "ada", other.fingerprint)
    assert len(await runner.store.memory.unencoded("app", "ada", BagOfWordsEncoder().fingerprint)) == 2, "the old are gone"


class _OtherEncoder(BagOfWordsEncoder):
    fingerprint = "another"


async def test_a_deleted_user_is_forgotten(make: Make) -> None:
    """G7."""
    runner = make(orders, memory=MemoryConfig(entities="long"))
    await ask(runner, "order 10412")
    await (await runner.start("order 777", user="bob", session="s")).result()
    await runner.sessions.delete_user("ada")
    assert await stored(runner, superseded=True) == []
    assert len(await stored(runner, "bob")) == 1


async def test_a_wrong_model_is_a_configuration_error(make: Make) -> None:
    with pytest.raises(ConfigError):
        make(orders, memory=MemoryConfig(model="nonsense"))


@agent(name="keeper", description="Keeps.")
async def keeper(message: str, context: AgentContext) -> str:
    await context.memory.remember(f"{message} one", said_by="user")
    await context.memory.remember(f"{message} two", said_by="user")
    return "Kept."


async def test_the_memory_of_a_user_has_a_limit(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Outside of turns, more is refused; in a turn it is left out, and the turn goes on. Other users have room."""
    runner = make(keeper, config=RunConfig(limits=Limits(memory_entries=3)), memory=MemoryConfig())
    other = make(keeper, config=RunConfig(limits=Limits(memory_entries=3)))
    assert (await ask(runner, "hello", "one")).text == "Kept."
    assert (await ask(other, "again", "two")).text == "Kept."
    assert "full" in caplog.text
    assert await texts(runner) == ["again one", "hello one", "hello two"]
    known = (await stored(runner))[0]
    new = MemoryEntry(id="new", text="new", created_at=known.created_at)
    with pytest.raises(MemoryFull, match=r"3 entries.*limits\.memory_entries"):
        await runner.memory.add("ada", [new])
    assert [each.id for each in await runner.memory.add("ada", [known])] == [known.id]
    assert [each.id for each in await runner.memory.add("bob", [new])] == ["new"]
    assert (await ask(runner, "order ABC-10412", "three")).text == "Kept."
    assert len(await stored(runner)) == 3
    await runner.memory.store.forget("app", "ada", ids=[known.id])
    await runner.memory.add("ada", [new])
    assert len(await stored(runner)) == 3


async def test_texts_count_in_the_storage_of_a_user(make: Make) -> None:
    runner = make(keeper, config=RunConfig(limits=Limits(user_bytes=5_000)))
    big = MemoryEntry(id="big", text="x" * 4_000, created_at=datetime(2026, 1, 1, tzinfo=UTC))
    await runner.memory.add("ada", [big])
    with pytest.raises(StorageUsed, match="memory"):
        await runner.memory.add("ada", [big.replace(id="bigger")])
    await ask(runner, "hello", "one")
    await ask(runner, "hello", "one")
    with pytest.raises(StorageUsed):
        await ask(runner, "hello", "one")
