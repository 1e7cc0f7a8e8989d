"""Definitions joined with agents in code: whose fields win, where agents are, and what is shared between sets."""

import gc
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from turnwise import agent
from turnwise.agents import Sequential
from turnwise.agents.function import FunctionAgent
from turnwise.config.agent_factory import AgentFactory, Registered
from turnwise.config.defined_agents import DefinedAgents
from turnwise.facts.errors import AgentDefinitionError, DuplicateAgent, TreeCycle, TreeError, TurnwiseError
from turnwise.facts.tree import AgentCard, Pattern
from turnwise.ports.definitions import Definition, MadeByFactory


def made(name: str, *children: Any, **card: Any) -> FunctionAgent:
    return agent(name=name, description=f"{name} in code", children=children, **card)(lambda: name)


class Closable:
    """An agent that counts how often it is closed."""

    def __init__(self, name: str) -> None:
        self.card, self.children, self.closed = AgentCard(name=name), (), 0

    async def run(self, context: Any) -> AsyncIterator[Any]:
        return
        yield

    async def close(self) -> None:
        self.closed += 1


def agents(root: Any, **makers: Any) -> DefinedAgents:
    return DefinedAgents(root, AgentFactory(Registered(makers=makers)))


def test_without_definitions_the_agents_are_those_in_code() -> None:
    root = made("root", made("a"))
    assert agents(root).apply(()).root is root


def test_a_definitions_fields_win_and_others_stay() -> None:
    """C11."""
    root = made("root", made("a", patterns=["x"], tags=("t",)), made("b"))
    applied = agents(root).apply([Definition(name="a", description="defined", patterns=(Pattern(regex="y"),))])
    a, b = applied.root.children
    assert (a.card.description, a.card.tags, [each.regex for each in a.card.patterns]) == ("defined", ("t",), ["y"])
    assert b is root.children[1], "what does not change is the same agent"


def test_agents_move_and_new_ones_come() -> None:
    root = made("root", made("a", made("b")), made("c"))
    new = Definition(name="new", parent="c", made_by=MadeByFactory(use="plain"))
    tree = agents(root, plain=lambda: lambda: "x").tree_of([Definition(name="b", parent="root"), new])
    assert (tree.children("root"), tree.children("a"), tree.children("c")) == (("a", "b", "c"), (), ("new",))
    top = Definition(name="top", made_by=MadeByFactory(use="plain"))
    assert agents(root, plain=lambda: lambda: "x").tree_of([top]).card("top").parent == "root"


@pytest.mark.parametrize(
    ("definition", "error"),
    [
        (Definition(name="a", parent="b"), TreeCycle),
        (Definition(name="a", parent="nobody"), TreeError),
        (Definition(name="root", enabled=False), TreeError),
        (Definition(name="root", parent="a"), TreeError),
        (Definition(name="a", made_by=MadeByFactory(use="plain")), DuplicateAgent),
        (Definition(name="absent"), AgentDefinitionError),
        (Definition(name="a", parent="seq"), TreeError),
        (Definition(name="s", parent="root"), TreeError),
        (Definition(name="n", made_by=MadeByFactory(use="plain"), parent="seq"), TreeError),
        (Definition(name="n", made_by=MadeByFactory(use="number")), AgentDefinitionError),
        (Definition(name="n", made_by=MadeByFactory(use="plain", options={"x": 1})), AgentDefinitionError),
    ],
)
def test_what_does_not_fit_together(definition: Definition, error: type[Exception]) -> None:
    """F2, F3."""
    root = made("root", made("a", made("b")), Sequential("seq", [made("s")]))
    joined = agents(root, plain=lambda: lambda: "x", number=lambda: 3)
    for apply in (joined.apply, joined.tree_of):
        with pytest.raises(error):
            apply([definition])


def test_a_newer_definition_is_not_served_and_named() -> None:
    newer = Definition.model_validate_json('{"name": "a", "mood": 1, "description": "newer"}')
    applied = agents(made("root", made("a"))).apply([newer])
    assert (applied.newer, applied.root.children[0].card.description) == (("a",), "a in code")


def test_an_agent_is_made_once_for_each_version() -> None:
    count: list[int] = []

    def plain() -> Any:
        count.append(1)
        return lambda: "x"

    joined = agents(made("root"), plain=plain)
    one = Definition(name="n", version=1, made_by=MadeByFactory(use="plain"))
    first, second = joined.apply([one]).root, joined.apply([one.replace(description="moved")]).root
    assert len(count) == 1
    third = joined.apply([one.replace(version=2)]).root
    assert len(count) == 2
    del first, second, third
    gc.collect()
    joined.apply([one])
    assert len(count) == 3, "what no set has any more is dropped"


async def test_an_agent_that_another_set_uses_is_not_closed() -> None:
    """F3: dropping a set closes only what no other set has."""
    shared = Closable("shared")
    joined = agents(made("root", shared))
    before, after = joined.apply(()).root, joined.apply([Definition(name="shared", tags=("new",))]).root
    old, new = before.children[0], after.children[0]
    await old.close()  # type: ignore[attr-defined]
    assert shared.closed == 0
    await new.close()  # type: ignore[attr-defined]
    assert shared.closed == 1


class Checking(Closable):
    """An agent that refuses a tree with an agent of that name, and counts its checks."""

    checks = 0

    def check(self, tree: Any) -> None:
        Checking.checks += 1
        if "refused" in tree and tree.card("refused").tags:
            raise TreeError("It refuses.")


def in_code() -> Any:
    return made("root", made("a", made("b")), made("c"), Sequential("seq", [made("s")]), Checking("checking"))


def joined_agents() -> DefinedAgents:
    return agents(in_code(), plain=lambda: lambda: "x", flow=lambda: Sequential("flow", [made("inner")]))


def some_definition(chosen: random.Random, revision: int) -> Definition:
    """A definition that often fits, of an agent in code or another one."""
    name = chosen.choice(["root", "a", "b", "c", "s", "seq", "checking", "n1", "n2", "n3", "refused"])
    fields: dict[str, Any] = {"tags": ("x",)} if chosen.random() < 0.5 else {"examples": (f"example {revision}",)}
    if chosen.random() < 0.2:
        fields["enabled"] = False
    if chosen.random() < 0.2:
        fields["parent"] = chosen.choice(["root", "a", "c", "n1", "seq", "nobody"])
    if name.startswith(("n", "r")) and name != "root":
        fields["made_by"] = MadeByFactory(use=chosen.choice(["plain", "plain", "flow", "absent"]))
    if chosen.random() < 0.1:
        return Definition.model_validate_json(f'{{"name": "{name}", "mood": 1}}').replace(version=revision, revision=revision)
    return Definition(name=name, version=revision, revision=revision, **fields)


def outcome(joined: DefinedAgents, definitions: list[Definition]) -> Any:
    """What applying gives, or the refusal."""
    try:
        tree = joined.tree_of(definitions)
        applied = joined.apply(definitions)
    except TurnwiseError as error:
        return type(error), str(error)
    places = [(name, [child.card.name for child in each.children], each.card) for name, each in applied.agents.items()]
    assert sorted(tree, key=lambda each: each.name) == sorted(applied.tree, key=lambda each: each.name)
    return [*applied.tree], applied.tree.version, places, applied.newer


@pytest.mark.parametrize("seed", range(12))
def test_any_changes_give_what_a_fresh_start_gives(seed: int) -> None:
    """F3, F4: the agents, their order and places, the tree and its version, and each refusal."""
    chosen, known, joined = random.Random(seed), dict[str, Definition](), joined_agents()
    for revision in range(1, 60):
        tried = dict(known)
        for _ in range(chosen.choice([1, 1, 1, 3])):
            new = some_definition(chosen, revision)
            if chosen.random() < 0.2:
                tried.pop(new.name, None)
            else:
                tried[new.name] = new
        definitions = sorted(tried.values(), key=lambda each: each.name)
        found = outcome(joined, definitions)
        assert found == outcome(joined_agents(), definitions)
        if isinstance(found[0], list):
            known = tried


def test_a_change_places_only_the_changed_agent_and_those_above_it() -> None:
    """F4: all others, and their cards, are the same objects; agents that check the tree do so again."""
    defined = [
        Definition(name=f"n{number}", version=1, revision=1, made_by=MadeByFactory(use="plain"), parent="c")
        for number in range(5)
    ]
    joined = joined_agents()
    before = joined.apply(defined)
    checks, defined[2] = Checking.checks, defined[2].replace(version=2, revision=2, examples=("new",))
    tree = joined.tree_of(defined)
    assert {each.name for each in tree if before.tree.card(each.name) is not each} == {"n2"}
    after = joined.apply(defined)
    assert {name for name in after.agents if after.agents[name] is not before.agents[name]} == {"n2", "c", "root"}
    assert [child.card.examples for child in after.agents["c"].children] == [(), (), ("new",), (), ()]
    assert Checking.checks == checks + 1
