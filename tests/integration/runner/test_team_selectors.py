"""A team's lead and its selector, whichever member is the lead and whatever the selector does wrong (B1, B2, B7)."""

from collections.abc import Callable
from typing import Any

import pytest
from runner_play import ask, reason

from turnwise import Runner, Team, agent
from turnwise.agents.function import FunctionAgent
from turnwise.facts.errors import AgentDefinitionError
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.conversational import Conversational
from turnwise.selection.fixed import Identity, Iterative
from turnwise.selection.policy import PolicySpec, StageSpec
from turnwise.selection.stages import BUILT_IN, build, build_context

MakeRunner = Callable[..., Runner]


def member(name: str, *answers: str) -> FunctionAgent:
    left = list(answers or [f"said by {name}"])

    @agent(name=name)
    def speaks() -> str:
        return left.pop(0)

    return speaks


def spoken(result: Any) -> list[str]:
    return [event.author for event in result.events if event.text and event.author != "user"]


@pytest.mark.parametrize("lead", ["first", "second", "third"])
@pytest.mark.parametrize("selector", [Conversational(), Identity()], ids=["conversational", "identity"])
async def test_the_lead_is_the_first_to_work(make_runner: MakeRunner, selector: Any, lead: str) -> None:
    """B1, B2: wherever it is in the list of members."""
    team = Team("desk", [member(name) for name in ("first", "second", "third")], selector=selector, lead=lead)
    assert spoken(await ask(make_runner(team), "go")) == [lead]


@pytest.mark.parametrize("lead", ["first", "second"])
async def test_the_lead_takes_what_names_nobody(make_runner: MakeRunner, lead: str) -> None:
    """B1, B4: an unknown name in a tag."""
    other = {"first": "second", "second": "first"}[lead]
    members = [
        member(name, f"on <next>{other}</next>", "end") if name == lead else member(name, "on <next>stranger</next>")
        for name in ("first", "second")
    ]
    result = await ask(make_runner(Team("desk", members, selector=Conversational(), lead=lead)), "go")
    assert spoken(result) == [lead, other, lead]


async def test_an_order_begins_as_it_stands_whoever_is_the_lead(make_runner: MakeRunner) -> None:
    """B3: the order is what was configured; the lead is for what it cannot choose."""
    team = Team("desk", [member("first"), member("second")], selector=Iterative(order=["second", "first"]), lead="first")
    assert spoken(await ask(make_runner(team), "go")) == ["second"]


class Wrong:
    """A selector of somebody's own that does not keep to the rules."""

    name = "wrong"

    def __init__(self, way: str) -> None:
        self._way = way

    async def select(self, request: SelectionRequest) -> Any:
        if self._way == "raises":
            raise RuntimeError("a secret: sk-12345")
        if self._way == "returns None":
            return None
        named = {"names a stranger": "stranger", "names an agent outside": "outside"}[self._way]
        return Verdict(selector=self.name, outcome="chosen", agent=named, method="wrong", confidence=1.0, reason="so")


@pytest.mark.parametrize("way", ["raises", "returns None", "names a stranger", "names an agent outside"])
@pytest.mark.parametrize("lead", ["first", "second"])
async def test_what_a_selector_does_wrong_falls_to_the_lead_on_record(make_runner: MakeRunner, way: str, lead: str) -> None:
    """B1: as in policies and flows, it is passed over, and the turn goes on."""
    team = Team("desk", [member("first"), member("second")], selector=Wrong(way), lead=lead)

    @agent(children=[team, member("outside")])
    def root() -> str:
        return "root"

    result = await ask(make_runner(root), "go", context=MessageContext(direct_agent_id="desk"))
    assert (spoken(result), reason(result)) == ([lead], "completed")
    decision = [event.actions.selection for event in result.events if event.actions.selection][-1]
    assert decision.agent == lead
    assert "passed over" in decision.reason
    assert "secret" not in decision.model_dump_json()


WORDS = ("Where is my parcel?", "I want my money back", "When do you open?")
_NAMES_AN_AGENT = {
    "identity": "lead",
    "conversational": "lead",
    "default": "agent",
    "smalltalk": "agent",
    "contextual": "general",
}


def of_kind(kind: str, members: list[str], named: str | None = None, *, examples: tuple[str, ...] = WORDS) -> Any:
    """The selector as a configuration file has it made for a team of these members. named: the agent that its option names."""
    fields: dict[str, dict[str, Any]] = {"iterative": {"order": members}, "model": {"model": "openai:none"}}
    options: dict[str, Any] = dict(fields.get(kind, {}))
    if named is not None:
        options[_NAMES_AN_AGENT[kind]] = named
    cards = [AgentCard(name="desk", kind="team"), *(AgentCard(name=name, parent="desk", examples=examples) for name in members)]
    return build(
        build_context(PolicySpec(name="desk"), AgentTree(cards), {}), kind, StageSpec(selector=kind, options=options)
    ).selector


@pytest.mark.parametrize("lead", ["first", "second", "third"])
@pytest.mark.parametrize("kind", [kind for kind in BUILT_IN if kind != "iterative"])
async def test_a_selector_of_every_kind_leaves_to_the_lead_what_is_for_nobody(
    make_runner: MakeRunner, kind: str, lead: str
) -> None:
    """B1: small talk, too; no kind takes the first member, or the team, for the lead."""
    names = ["first", "second", "third"]
    team = Team("desk", [member(name) for name in names], selector=of_kind(kind, names), lead=lead)
    assert spoken(await ask(make_runner(team), "hello")) == [lead]


@pytest.mark.parametrize("kind", _NAMES_AN_AGENT)
@pytest.mark.parametrize("named", ["third", "second"])
async def test_an_agent_that_the_selector_names_comes_before_the_lead(make_runner: MakeRunner, kind: str, named: str) -> None:
    """B1: for small talk, which all of these give to the agent they name."""
    names = ["first", "second", "third"]
    selector = of_kind(kind, names, named)
    team = Team("desk", [member(name) for name in names], selector=selector, lead="first")
    assert spoken(await ask(make_runner(team), "hello")) == [named]


@pytest.mark.parametrize("kind", _NAMES_AN_AGENT)
@pytest.mark.parametrize("members", [["first"], ["first", "second"]])
@pytest.mark.parametrize("examples", [WORDS, ()], ids=["with words", "without words"])
def test_a_selector_of_every_kind_that_names_a_stranger_is_found_when_the_team_is_made(
    kind: str, members: list[str], examples: tuple[str, ...]
) -> None:
    """B3"""
    selector = of_kind(kind, ["first", "second", "third"], "third", examples=examples)
    with pytest.raises(AgentDefinitionError, match="names 'third', which is not a member"):
        Team("desk", [member(name) for name in members], selector=selector)
