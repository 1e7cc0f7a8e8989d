"""The definitions that serve are read once; later readings get only what changed."""

from turnwise.config.served_definitions import ServedDefinitions
from turnwise.facts.ids import SystemIssuer
from turnwise.ports.definitions import AnyDefinition, Author, Definition, PolicyDefinition
from turnwise.stores.sql import SqlSessionStore


async def test_a_reading_is_what_the_store_serves() -> None:
    """F3: after each change, and when somebody else's reading was later."""
    store = SqlSessionStore("sqlite://")
    author = Author("test", SystemIssuer().now())
    served = ServedDefinitions(store.definitions, "app")
    assert (await served.read()) == (0, (), (), ())
    first: list[AnyDefinition] = [Definition(name="b"), Definition(name="a"), PolicyDefinition(policy="default")]
    await store.definitions.put("app", first, {}, author)
    assert await served.read() == await store.definitions.served("app")
    kept = (await served.read()).agents[1]
    await store.definitions.put("app", [Definition(name="a", tags=("x",))], {("agent", "a"): 1}, author)
    await store.definitions.put("app", [Definition(name="c", status="draft")], {}, author)
    assert await served.read() == await store.definitions.served("app")
    assert served.known.agents[1] is kept, "what did not change is not read again"
    gone = Definition(name="b", status="retired")
    await store.definitions.put("app", [gone], {("agent", "b"): 1}, author)
    assert await served.read() == await store.definitions.served("app")
    assert (served.retired, served.known.revision) == (frozenset({"b"}), 4)
    await store.definitions.put("app", [Definition(name="b")], {("agent", "b"): 2}, author)
    assert [each.name for each in (await served.read()).agents] == ["a", "b"]
    assert served.retired == frozenset()
    await store.close()
