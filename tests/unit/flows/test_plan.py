"""Plans: how they are read, what cannot be one, and that the log gives them back."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from turnwise.facts.content import Content, DataPart, TextPart, text_content
from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.events import Event
from turnwise.flows.plan import Plan, PlannedTask, check_plan, graph_of, plan_content, plan_of, read_plan

TASK = {"name": "look", "objective": "Look.", "agents": ["reader"]}
WHOLE: dict[str, Any] = {
    "tasks": [
        TASK,
        {"name": "judge", "agents": ["critic"], "depends_on": ["look"], "result": ["good", "bad"]},
        {"name": "count", "agents": ["critic"], "result": {"type": "integer"}},
        {"name": "tell", "agents": ["critic"], "result": "text"},
    ]
}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*TASK, "tasks", "result", "x"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def said(plan: Plan, by: str = "flow") -> Event:
    return Event(id="e", author=by, invocation_id="i", created_at=datetime.now(UTC), content=plan_content("flow", plan))


def problem(answer: Any) -> str:
    with pytest.raises(FlowDefinitionError) as raised:
        read_plan(text_content(answer if isinstance(answer, str) else json.dumps(answer)))
    return raised.value.problem


def test_a_plan_is_json_alone_or_in_a_fence_or_data() -> None:
    plan = read_plan(text_content(json.dumps(WHOLE)))
    assert [task.name for task in plan.tasks] == ["look", "judge", "count", "tell"]
    assert plan.agents == ("reader", "critic")
    fenced = f"Here it is:\n```json\n{json.dumps(WHOLE, indent=1)}\n```\nDone."
    assert read_plan(text_content(fenced)) == plan
    data = (TextPart(text="As data."), DataPart(data={"first": "draft"}), DataPart(data=WHOLE))
    assert read_plan(Content(parts=data)) == plan


def test_its_tasks_have_results_of_their_kinds() -> None:
    look, judge, count, tell = read_plan(text_content(json.dumps(WHOLE))).to_tasks()
    assert (look.agent_names, look.objective, look.result.schema) == (("reader",), "Look.", None)
    assert (judge.depends_on, judge.result.labels) == (("look",), ("good", "bad"))
    assert (count.result.schema, tell.result.schema) == ({"type": "integer"}, None)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("I cannot plan that.", "no plan: it is no JSON: "),
        ("```json\n{}\n```\n```json\n{}\n```", "it is no JSON: "),
        ("[" * 10_000, "it is no JSON: "),
        ({}, "tasks is missing."),
        ([TASK], "it has to be an object."),
        ({"tasks": []}, "tasks has to have a length of 1 or more."),
        ({"tasks": [TASK], "comment": "x"}, "comment does not belong there."),
        ({"tasks": [{**TASK, "agents": []}]}, "tasks[0].agents has to have a length of 1 or more."),
        ({"tasks": [{"name": "look"}]}, "tasks[0].agents is missing."),
        ({"tasks": [{**TASK, "agents": "reader"}]}, "tasks[0].agents has to be a list."),
        ({"tasks": [{**TASK, "name": 3}]}, "tasks[0].name has to be a text."),
        ({"tasks": [{**TASK, "tools": ["rm"]}]}, "tasks[0].tools does not belong there."),
        (
            {"tasks": [{**TASK, "result": "number"}]},
            'tasks[0].result: it has to be "text", a list of labels, or a JSON schema.',
        ),
        ({"tasks": [{**TASK, "result": [1]}]}, 'tasks[0].result: it has to be "text", a list of labels, or a JSON schema.'),
        ({"tasks": [3] * 9}, "tasks[0] has to be an object; tasks[1]"),
        ({"tasks": [3] * 9}, " (4 more)."),
    ],
)
def test_what_is_no_plan_is_told_by_its_place(answer: Any, told: str) -> None:
    assert told in problem(answer)


@given(ANY_JSON, st.booleans())
def test_whatever_is_answered_is_a_plan_or_told_in_words(answer: Any, as_data: bool) -> None:
    content = Content(parts=(DataPart(data=answer),)) if as_data else text_content(json.dumps(answer))
    with suppress(FlowDefinitionError):
        read_plan(content).to_tasks()


def test_more_tasks_than_allowed_and_unknown_agents_are_refused() -> None:
    plan = read_plan(text_content(json.dumps(WHOLE)))
    check_plan(plan, ("reader", "critic"), 4)
    with pytest.raises(FlowDefinitionError, match="4 tasks, 3 are allowed"):
        check_plan(plan, ("reader", "critic"), 3)
    with pytest.raises(FlowDefinitionError, match=r"'judge' names the agent 'critic', which does not exist.*Known: reader"):
        check_plan(plan, ("reader",), 4)


def test_the_log_gives_a_plan_back() -> None:
    plan = read_plan(text_content(json.dumps(WHOLE)))
    stored = Event.model_validate_json(said(plan).model_dump_json())
    assert plan_of(stored) == plan
    graph = graph_of("flow", stored)
    assert graph is not None
    assert (graph.flow, graph.needs["judge"]) == ("flow", ("look",))


def test_another_agents_plan_is_none_of_the_flow() -> None:
    """D9: who speaks is known by its name, so an agent cannot forge a plan."""
    plan = Plan(tasks=(PlannedTask(name="a", agents=("b",)),))
    assert graph_of("flow", said(plan, by="somebody")) is None
    assert graph_of("flow", said(plan).with_content(text_content("words"))) is None


@pytest.mark.parametrize("data", [{}, {"tasks": []}, {"tasks": "(list)"}, {"tasks": [{**TASK, "agents": []}]}, ["tasks"]])
def test_a_plan_that_guardrails_rewrote_is_none(data: Any) -> None:
    plan = Plan(tasks=(PlannedTask(name="a", agents=("b",)),))
    rewritten = Content(parts=(DataPart(name="plan", data=data),))
    assert plan_of(said(plan).with_content(rewritten)) is None


def test_a_plan_of_which_guardrails_left_no_graph_has_none() -> None:
    same = Plan(tasks=(PlannedTask(name="(name)", agents=("b",)), PlannedTask(name="(name)", agents=("c",))))
    assert plan_of(said(same)) == same
    assert graph_of("flow", said(same)) is None
