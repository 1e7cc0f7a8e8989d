"""Flows in lines."""

from dataclasses import replace

from turnwise import agent
from turnwise.agents.members import collect
from turnwise.cli.flow_output import (
    change_lines,
    definition_lines,
    end_line,
    flow_lines,
    plan_lines,
    question_line,
    run_lines,
    short_status_lines,
    unplanned_run_lines,
)
from turnwise.flows.design import Design, RunRules
from turnwise.flows.flow import Flow
from turnwise.flows.planned import AnyFlow, PlannedFlow, Several
from turnwise.flows.record import FlowRecord, TaskRecord, TurnRecord, UnplannedRun
from turnwise.flows.strategies import Popcorn
from turnwise.flows.tasks import Graph, Status, Task
from turnwise.flows.until import AllComplete

GRAPH = Graph(
    "report",
    [
        Task("research", "Find \x1b[31msources.", agents=["reader"]),
        Task("draft", depends_on=["research"], run_if="always", result=["good", "bad"]),
        Task("score", depends_on=["draft"], result=dict),
    ],
)
BEFORE = FlowRecord(
    "report",
    "i",
    {"research": TaskRecord("research", Status.RUNNING, "reader"), "draft": TaskRecord("draft"), "score": TaskRecord("score")},
    (TurnRecord(1, "reader", ("research",), "popcorn", "It is the first."),),
)
AFTER = replace(
    BEFORE,
    tasks={
        "research": TaskRecord("research", Status.FAILED, "reader", reason="No\nnet.", turns=(1,)),
        "draft": TaskRecord("draft", Status.RUNNING, "writer", turns=(2,)),
        "score": TaskRecord("score", Status.SUCCESSFUL, "writer", result={"stars": 3}),
    },
    turns=(
        BEFORE.turns[0]._replace(is_over=True),
        TurnRecord(2, "writer", ("draft", "score"), "active", "writer is at work.", question="How\nlong?"),
    ),
)


def test_a_definition_has_its_tasks_in_order() -> None:
    design = Design(GRAPH, ("ann", "bob"), RunRules(Popcorn(), AllComplete(), side_by_side=2))
    lines = [line.plain for line in definition_lines(design)]
    assert lines == [
        "report · 3 tasks · strategy popcorn · at most 30 turns · 2 side by side",
        "task      agents    needs              result            objective",
        "research  reader                       text              Find sources.",
        "draft     ann, bob  research (always)  one of good, bad",
        "score     ann, bob  draft              object",
    ]


def test_a_narrow_terminal_gets_narrow_lines() -> None:
    design = Design(GRAPH, ("ann", "bob"), RunRules(Popcorn(), AllComplete()))
    assert [line.plain for line in definition_lines(design, 60)][:5] == [
        "report · 3 tasks · strategy popcorn · at most 30 turns",
        "task      agents    needs              result",
        "   objective",
        "research  reader                       text",
        "   Find sources.",
    ]
    assert [line.plain for line in run_lines(GRAPH, AFTER, 53)][-6:-2] == [
        "turn  agent   tasks         because",
        "   1  reader  research      popcorn · It is the",
        "                            first.",
        "   2  writer  draft, score  active · writer is at",
    ]


@agent(description="Reads\nbooks.")
def reader(message: str) -> str:
    return "a book"


@agent
def planner(message: str) -> str:
    return "{}"


def lines_of(flow: AnyFlow) -> list[str]:
    return [line.plain for line in flow_lines(flow, collect(flow)[1])]


def test_a_flow_whose_tasks_are_not_known_says_who_knows_them() -> None:
    assert lines_of(PlannedFlow("report", planner=planner, agents=[reader], side_by_side=2, max_tasks=5)) == [
        "report · planned by planner · at most 5 tasks · strategy popcorn · at most 10 turns a task · 2 side by side",
        "agent   description",
        "reader  Reads books.",
    ]
    assert "at most 7 turns" in lines_of(PlannedFlow("report", planner=planner, agents=[reader], max_turns=7))[0]
    assert lines_of(Several()) == ["several · asks all agents that a message is for · side by side · a task each"]
    assert lines_of(Flow("report", [Task("read", agents=[reader])]))[0].startswith("report · 1 task · strategy popcorn")


def test_a_plan_is_its_tasks() -> None:
    assert [line.plain for line in plan_lines(Graph("report", [Task("read", "Read it.", agents=["reader"])]))] == [
        "plan · 1 task",
        "task  agents  needs  result  objective",
        "read  reader         text    Read it.",
    ]


def test_a_run_without_tasks_says_why_it_has_none() -> None:
    asks = UnplannedRun("report", "i", asked_by="planner", question="For\nwhom?")
    assert [line.plain for line in unplanned_run_lines(asks)] == ["report · no plan yet", "planner asks: For whom?"]
    failed = UnplannedRun("report", "i", "failed", "No\nidea.")
    assert [line.plain for line in unplanned_run_lines(failed)] == ["report · ended without a plan: failed", "   No idea."]


def test_a_run_has_its_tasks_turns_and_questions() -> None:
    lines = [line.plain for line in run_lines(GRAPH, AFTER)]
    assert lines == [
        "report · 3 tasks · 1 successful · 1 running · 1 failed",
        "   task      state       by      turns  result",
        "✗  research  failed      reader  1      No net.",
        "▶  draft     running     writer  2",
        '✓  score     successful  writer         {"stars": 3}',
        "",
        "turn  agent   tasks         because",
        "   1  reader  research      popcorn · It is the first.",
        "   2  writer  draft, score  active · writer is at work.",
        "writer asks: How long?",
    ]


def test_an_end_says_how_and_a_bad_one_why() -> None:
    bad = replace(AFTER, end="failed", detail="'research' failed.", model_calls=1)
    assert [line.plain for line in run_lines(GRAPH, bad)][-2:] == ["failed · 2 turns · 1 model call", "   'research' failed."]
    assert end_line(replace(BEFORE, end="complete")).plain == "complete · 1 turn"


def test_news_are_what_began_and_what_ended() -> None:
    assert [line.plain for line in change_lines(None, BEFORE)] == ["→ reader · research · popcorn"]
    assert [line.plain for line in change_lines(BEFORE, AFTER)] == [
        "→ writer · draft, score · active",
        "✗ research failed · No net.",
        '✓ score successful · {"stars": 3}',
    ]
    assert list(change_lines(AFTER, AFTER)) == []


def test_a_turn_is_news_once_its_agent_is_known() -> None:
    unknown = replace(BEFORE, turns=(TurnRecord(1, "", ("research",)),))
    assert list(change_lines(None, unknown)) == []
    known = replace(BEFORE, turns=(TurnRecord(1, "reader", ("research",)),))
    assert [line.plain for line in change_lines(unknown, known)] == ["→ reader · research"]


def test_a_glance_keeps_to_its_rows_and_shows_who_is_at_work_first() -> None:
    assert [line.plain for line in short_status_lines(GRAPH, AFTER, 1)] == [
        "   task   state    by      turns  result",
        "▶  draft  running  writer  2",
        "   … and 1 failed, 1 successful",
    ]
    assert len(list(short_status_lines(GRAPH, None, 10))) == 4


def test_what_agents_wrote_is_made_safe() -> None:
    assert question_line("a\x1b[31m", "b\nc\x07").plain == "a asks: b c"
