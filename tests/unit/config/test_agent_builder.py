"""Agents of a configuration file, built."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from config_play import line_only, module_in

from turnwise import Runner, SqlSessionStore
from turnwise.config.agent_builder import AgentBuilder
from turnwise.config.entries import PlacedAgent
from turnwise.config.settings import read_settings
from turnwise.ports.agent import Agent

AGENTS = '''
from turnwise import Sequential, agent

def plain(message):
    """Does it plainly.

    And well.
    """
    return message

@agent(patterns=["x"], examples=["an example"], description="made in code")
def made(message):
    return message

@agent(children=[made])
def family(): ...

@agent(patterns=["(?=x)"])
def refused(): ...

@agent(children=[refused])
def holds_refused(): ...

flow = Sequential("flow", [made])

def wants(message, more): ...

class Thing: ...

number = 3
'''
Build = Callable[[str], tuple[Agent | None, list[str]]]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    monkeypatch.chdir(tmp_path)
    with module_in(tmp_path, AGENTS) as name:

        def building(text: str) -> tuple[Agent | None, list[str]]:
            (tmp_path / "t.yaml").write_text("app: x\n" + text.replace("M:", f"{name}:"))
            settings = read_settings(tmp_path / "t.yaml", {})
            roster = AgentBuilder(settings, {})
            root = roster.root()
            if root is not None and roster.tree(root) is None:
                root = None
            roster.report_refused_patterns()
            return root, [f"{error.code} {line_only(error)}".replace(name, "M") for error in settings.document.problems]

        yield building


def built(build: Build, text: str) -> Agent:
    root, problems = build(text)
    assert problems == []
    assert root is not None
    return root


def test_a_function_gets_a_card(build: Build) -> None:
    root = built(build, "agents: [{run: 'M:plain', tags: [t]}]\n")
    assert (root.card.name, root.card.description, root.card.tags) == ("plain", "Does it plainly.", ("t",))


def test_an_agent_of_code_keeps_what_the_file_does_not_change(build: Build) -> None:
    root = built(build, "agents: [{run: 'M:made', name: other, patterns: [y]}]\n")
    assert isinstance(root, PlacedAgent)
    assert (root.card.name, root.card.description, root.card.examples) == ("other", "made in code", ("an example",))
    assert [pattern.regex for pattern in root.card.patterns] == ["y"]


def test_an_agent_of_code_that_nothing_changes_is_itself(build: Build) -> None:
    assert not isinstance(built(build, "root: M:family\n"), PlacedAgent)


def test_children_of_code_come_before_those_of_the_file(build: Build) -> None:
    root = built(build, "root: M:family\nagents: [{name: more, run: 'M:plain'}]\n")
    assert [child.card.name for child in root.children] == ["made", "more"]


def test_composites(build: Build) -> None:
    text = (
        "agents:\n  - name: all\n    kind: sequential\n    description: d\n    children:\n"
        "      - {name: both, kind: parallel, children: [{name: a, run: 'M:plain'}, {name: b, run: 'M:plain'}]}\n"
        "      - {name: again, kind: loop, max_iterations: 3, children: [{name: c, run: 'M:plain'}]}\n"
        "      - {name: us, kind: team, lead: e, ends: escalated,\n"
        "         children: [{name: d, run: 'M:plain'}, {name: e, run: 'M:plain'}]}\n"
    )
    root = built(build, text)
    assert [(child.card.kind, child.card.name) for child in root.children] == [
        ("parallel", "both"), ("loop", "again"), ("team", "us"),
    ]  # fmt: skip
    assert root.card.description == "d"
    assert getattr(root.children[1], "max_iterations", None) == 3


def test_a_team_with_a_selector(build: Build) -> None:
    team = "{name: t, kind: team, selector: %s, children: [{name: a, run: 'M:plain'}, {name: b, run: 'M:plain'}]}"
    built(build, f"agents: [{team % 'identity'}]\n")
    built(build, f"agents: [{team % '{selector: iterative, options: {order: [b, a]}}'}]\n")
    _, problems = build(f"agents: [{team % '{selector: iterative, options: {order: [b, c]}}'}]\n")
    assert "config.policy t.yaml:2: Policy 't', stage 'iterative', 'order': there is no agent 'c'." in problems[0]


@pytest.mark.parametrize("selector", ["identity", "conversational"])
@pytest.mark.parametrize("lead", ["a", "b"])
def test_the_lead_of_a_team_works_first_wherever_it_stands(build: Build, selector: str, lead: str) -> None:
    """B1."""
    members = "[{name: a, run: 'M:plain'}, {name: b, run: 'M:plain'}]"
    team = built(build, f"agents: [{{name: t, kind: team, selector: {selector}, lead: {lead}, children: {members}}}]\n")
    runner = Runner(team, store=SqlSessionStore("sqlite://"))
    result = runner.run_sync("hi", user="ann", session="s")
    assert [event.author for event in result.events if event.author != "user" and event.text] == [lead]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("root: M:Thing\n", "config.agent t.yaml:2: M:Thing is a class, not an agent."),
        ("root: M:number\n", "config.agent t.yaml:2: M:number is of the type int, not an agent."),
        ("root: M:wants\n", "config.agent t.yaml:2: Agent 'wants': its function wants 'more', which nothing fills."),
        ("agents:\n  - name: user\n    run: M:plain\n", "config.agent t.yaml:3: 'name': The agent name 'user' is reserved"),
        ("agents:\n  - run: M:plain\n    time_limit: no\n", "config.agent t.yaml:4: 'time_limit' should be a number"),
        ("agents:\n  - {name: l, kind: loop, max_iterations: 0, children: ['M:plain']}\n", "config.agent t.yaml:3: 'max_iter"),
        ("agents:\n  - {name: t, kind: team, ends: never, children: ['M:plain']}\n", "config.agent t.yaml:3: 'ends' should be"),
        ("agents:\n  - {name: t, kind: team, lead: x, children: ['M:plain']}\n", "config.agent t.yaml:3: The lead 'x' of team"),
        ("root: M:flow\nagents: [{name: more, run: 'M:plain'}]\n", "config.agent t.yaml:2: M:flow is a sequential agent"),
        ("root: M:family\nagents: ['M:made']\n", "config.duplicate_agent t.yaml:3: Agent 'made' stands twice below 'family'."),
        ("root: M:refused\n", "config.pattern t.yaml:2: The pattern '(?=x)' of 'refused'"),
        ("root: M:holds_refused\n", "config.pattern t.yaml:2: The pattern '(?=x)' of 'refused'"),
        (
            "agents:\n  - run: M:plain\n    patterns:\n      - a\n      - '(?=x)'\n",
            "config.pattern t.yaml:6: The pattern '(?=x)'",
        ),
    ],
)
def test_a_mistake_names_its_line(build: Build, text: str, problem: str) -> None:
    _, problems = build(text)
    assert [found for found in problems if found.startswith(problem)] != []
    assert len(problems) == 1


def test_mistakes_of_several_agents_are_all_told(build: Build) -> None:
    _, problems = build(
        "root: a\nagents:\n  - M:nobody\n  - {name: a, run: 'M:wants'}\n"
        "  - {name: b, run: 'M:plain', parent: a, patterns: ['(']}\n"
        "  - {name: c, run: 'M:plain', resume: x}\n"
    )
    assert [problem.split(":")[1] for problem in problems] == ["4", "5", "6", "7"]
