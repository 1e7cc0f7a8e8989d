"""Flows of a configuration file, built."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from config_play import line_only, module_in

from turnwise import Runner, SqlSessionStore
from turnwise.config.agent_builder import AgentBuilder, flows_by_name
from turnwise.config.settings import read_settings
from turnwise.facts.messages import MessageContext
from turnwise.flows.flow import Flow
from turnwise.flows.record import FlowReader
from turnwise.ports.agent import Agent

CODE = '''
from dataclasses import dataclass
from turnwise import agent
from turnwise.flows.flow import Flow
from turnwise.flows.planned import PlannedFlow
from turnwise.flows.planned import Several
from turnwise.flows.tasks import Task

def desk(message): return "hello"
def reader(message): return "three sources"
def writer(message): return "a text"
def judge(message): return "good"

def look(place: str) -> str:
    """Looks."""
    return place

@dataclass
class Rating:
    stars: int

class Bag: ...

planned = PlannedFlow("planned", planner=agent(lambda: "{}", name="planner"), agents=[agent(lambda: "x", name="doer")])
several = Several()
made = Flow("made", [Task("a", agents=[agent(lambda: "x", name="a-er")])])
lost = Flow("lost", [Task("a", agents=["nobody"])])
'''
HEAD = """app: x
root: desk
agents:
  - {name: desk, run: 'M:desk'}
  - {name: judge, run: 'M:judge'}
"""
FLOW = """  - name: report
    kind: flow
    description: Writes reports.
    children:
      - {name: reader, run: 'M:reader'}
      - {name: writer, run: 'M:writer'}
"""
Build = Callable[[str], tuple[Agent | None, list[str]]]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Build]:
    monkeypatch.chdir(tmp_path)
    with module_in(tmp_path, CODE) as name:

        def building(text: str) -> tuple[Agent | None, list[str]]:
            (tmp_path / "t.yaml").write_text(text.replace("M:", f"{name}:"))
            settings = read_settings(tmp_path / "t.yaml", {})
            roster = AgentBuilder(settings, {})
            root = roster.root()
            if root is not None:
                roster.tree(root)
            return root, [line_only(error).removeprefix("t.yaml:") for error in settings.document.problems]

        yield building


async def test_a_flow_is_written_out_and_runs(build: Build) -> None:
    """D1, D5, D11."""
    tasks = """    tasks:
      - {name: research, objective: Find three sources., agents: [reader]}
      - {name: rating, depends_on: [research], result: 'M:Rating', agents: [judge], run_if: always}
      - name: verdict
        parent: rating
        agents: [judge]
        interactive: true
        result: {labels: [good, bad]}
        tools: ['M:look']
      - {name: facts, result: {schema: {type: object}}}
    strategy: {use: random, seed: 3}
    until: {any_complete: [verdict], max_turns: 9}
    side_by_side: 2
    max_turns: 20
    targets: [verdict, research]
"""
    root, problems = build(HEAD + FLOW + tasks)
    assert problems == []
    assert root is not None
    flow = flows_by_name(root)["report"]
    assert isinstance(flow, Flow)
    assert [child.card.name for child in flow.children] == ["reader", "writer"]
    graph, design = flow.graph, flow.design
    assert graph.needs == {"research": (), "rating": ("research", "verdict"), "verdict": (), "facts": ()}
    assert graph.tasks["verdict"].result.labels == ("good", "bad")
    assert graph.tasks["verdict"].interactive
    assert [tool.spec.name for tool in graph.tasks["verdict"].tools] == ["look"]
    assert graph.tasks["rating"].result.schema is not None
    assert (graph.tasks["rating"].run_if, graph.tasks["facts"].result.schema) == ("always", {"type": "object"})
    assert (design.agents, design.rules.strategy.name, design.rules.side_by_side) == (("reader", "writer"), "random", 2)
    assert (design.max_turns, design.targets, repr(design.rules.until)) == (
        20, ("verdict", "research"), "(AnyComplete('verdict') | MaxTurns(9))",
    )  # fmt: skip
    runner = Runner(root, store=SqlSessionStore("sqlite:///:memory:"))
    context = MessageContext(direct_agent_id="report")
    result = await (await runner.start("Go", user="ada", session="s", context=context)).result()
    await runner.close()
    reading = FlowReader("report", graph)
    for event in result.events:
        reading.add(event)
    record = reading.record
    assert record is not None
    assert (record.end, record.tasks["verdict"].result) == ("complete", "good")


def test_children_that_no_task_names_stay_below_the_flow(build: Build) -> None:
    root, problems = build(HEAD + FLOW + "    agents: [writer]\n    tasks: [{name: a}]\n")
    assert problems == []
    assert root is not None
    placed = root.children[1]
    assert {child.card.name for child in placed.children} == {"writer", "reader"}
    flow = flows_by_name(root)["report"]
    assert isinstance(flow, Flow)
    assert flow.design.agents == ("writer",)


def test_flows_that_know_their_tasks_only_once_they_run_are_found(build: Build) -> None:
    root, problems = build(HEAD + "  - {run: 'M:planned', description: other}\n  - M:several\n")
    assert problems == []
    assert root is not None
    assert {name: flow.graph for name, flow in flows_by_name(root).items()} == {"planned": None, "several": None}


def test_a_flow_of_code_is_found_and_keeps_its_name(build: Build) -> None:
    root, problems = build(HEAD + "  - {name: made, run: 'M:made', description: other}\n")
    assert problems == []
    assert root is not None
    assert [*flows_by_name(root)] == ["made"]
    _, problems = build(HEAD + "  - {name: other, run: 'M:made'}\n")
    assert problems[0].endswith("is the flow 'made', which keeps its name. Take 'name' away.")
    _, problems = build(HEAD + "  - {name: lost, run: 'M:lost', description: other}\n")
    assert "names the agent 'nobody', which does not exist" in problems[0]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tasks: {a: b}", "12: 'tasks' should be a list, but is keys and values."),
        ("tasks: [7]", "12: A task is keys and values; this is a number."),
        ("tasks: [{objective: x}]", "12: A task needs 'name'."),
        ("tasks: [{name: user}]", "12: 'user' cannot be a task's name."),
        ("tasks: [{name: a, agent: [writer]}]", "12: A task has no key 'agent'. Did you mean 'agents'?"),
        ("tasks: [{name: a, agents: writer}]", "12: 'agents' should be a list, but is text."),
        ("tasks: [{name: a, agents: [wroter]}]", "12: There is no agent 'wroter' to work in the flow. Did you mean 'writer'?"),
        ("tasks: [{name: a, agents: [writer, writer]}]", "12: Task 'a' has two agents named 'writer'."),
        ("tasks: [{name: a, run_if: never}]", "12: 'run_if' should be 'success' or 'always'."),
        ("tasks: [{name: a, result: 3}]", "12: This is no kind of result."),
        ("tasks: [{name: a, result: {label: [x]}}]", "12: This is no kind of result."),
        ("tasks: [{name: a, result: integer}]", "12: This is no kind of result. Write text"),
        ("tasks: [{name: a, result: {labels: {type: string}}}]", "12: 'labels' should be a list, but is keys and values."),
        ("tasks: [{name: a, result: {schema: [x, y]}}]", "12: 'schema' should be keys and values, but is a list."),
        ("tasks: [{name: a, result: {labels: [x, x]}}]", "12: Task 'a': the label 'x' is there twice."),
        ("tasks: [{name: a, result: {schema: {type: thing}}}]", "12: Task 'a': the JSON schema of its result cannot be used"),
        ("tasks: [{name: a, result: 'M:Bag'}]", "12: Task 'a': the result type"),
        ("tasks: [{name: a, result: 'M:Bog'}]", "12: The module"),
        ("tasks: [{name: a, tools: [artifacts]}]", "12: A task takes single tools"),
        ("tasks: [{name: a, tools: [{agent: desk}]}]", "12: A task takes single tools"),
        ("tasks: [{name: a}, {name: a}]", "12: Two tasks are named 'a': this one and the one in line 12."),
        (
            "\n      - {name: a}\n      - {name: b, depends_on: [c]}",
            "14: There is no task 'c' on which 'b' depends. Known: a, b.",
        ),
        ("\n      - {name: a}\n      - {name: b, parent: c}", "14: There is no task 'c' to be the parent of 'b'."),
        (
            "\n      - {name: a}\n      - {name: b, depends_on: [c]}\n      - {name: c, depends_on: [b]}",
            "14: The flow 'report' has a cycle: 'b' needs 'c' needs 'b'.",
        ),
        ("\n      - {name: a, parent: a}", "13: The flow 'report' has a task below itself"),
        ("tasks: [{name: a}]\n    strategy: popcron", "13: There is no strategy 'popcron'."),
        ("tasks: [{name: a}]\n    strategy: [popcorn]", "13: 'strategy' should be a name or keys and values"),
        (
            "tasks: [{name: a}]\n    strategy: {use: moderated, moderator: nobody}",
            "13: There is no agent 'nobody' to work in the flow.",
        ),
        (
            "tasks: [{name: a, agents: [writer]}]\n    strategy: {use: single, agent: reader}",
            "6: The flow 'report': Single gives every turn to 'reader', who may do none of its tasks. Known: writer.",
        ),
        ("tasks: [{name: a}]\n    until: []", "13: 'until' is empty."),
        ("tasks: [{name: a}]\n    until: any_faild", "13: There is no condition 'any_faild'."),
        ("tasks: [{name: a}]\n    side_by_side: 0", "13: 'side_by_side' should be greater than or equal to 1."),
        ("tasks: [{name: a}]\n    max_turns: many", "13: 'max_turns' should be a whole number, but is text."),
        ("tasks: [{name: a}]\n    targets: [b]", "13: There is no task 'b' for the target. Known: a."),
        ("tasks: [{name: a}]\n    agents: [desq]", "13: There is no agent 'desq' to work in the flow."),
        ("tasks: [{name: a}]\n    selector: x", "13: An agent of kind 'flow' has no key 'selector'."),
        ("tasks: []", "12: 'tasks' is empty. Write at least one"),
        ("tasks:", "12: 'tasks' should be a list, but is nothing."),
    ],
)
def test_mistakes_are_told_with_their_place(build: Build, text: str, problem: str) -> None:
    """D10: also what would keep a flow from ever ending."""
    text = text if text.startswith("tasks") else f"tasks:{text}"
    _, problems = build(f"{HEAD}{FLOW}    {text}\n")
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_a_flow_that_nobody_works_in_is_told(build: Build) -> None:
    _, problems = build(HEAD + "  - name: report\n    kind: flow\n    tasks: [{name: a}]\n")
    assert problems == ["6: No agent can do the task 'a' of 'report'. Name agents."]
