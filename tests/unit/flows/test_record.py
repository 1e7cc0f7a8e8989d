"""What a session's log says of a flow."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from turnwise import AgentContext, Runner, Sequential, SqlSessionStore, agent
from turnwise.facts.events import Actions, Event
from turnwise.flows.flow import Flow
from turnwise.flows.planned import PlannedFlow
from turnwise.flows.record import FlowReader, FlowRecord, UnplannedRun
from turnwise.flows.tasks import Graph, Status, Task
from turnwise.ports.agent import Agent


@agent
def reader(message: str) -> str:
    return "three sources"


@agent
def critic(message: str) -> str:
    raise ValueError("no mood")


@agent
async def boss(context: AgentContext) -> str:
    return (await context.ask("Is it good?")).text


@agent
def does() -> str:
    return "done"


@agent
async def planner(context: AgentContext) -> dict[str, object]:
    if context.message.text.endswith('"unsure"'):
        await context.ask("For whom?")
    if context.message.text.endswith('"lost"'):
        raise ValueError("no idea")
    tasks = [{"name": "look", "agents": ["does"]}, {"name": "approve", "agents": ["boss"], "depends_on": ["look"]}]
    return {"tasks": tasks}


def planned() -> PlannedFlow:
    return PlannedFlow("plans", planner=planner, agents=[does, boss])


def report() -> Flow:
    return Flow(
        "report",
        [
            Task("research", agents=[reader]),
            Task("judge/it", agents=[critic], depends_on=["research"]),
            Task("mend", agents=["reader"], depends_on=["judge/it"]),
            Task("approve", agents=[boss], depends_on=["research"]),
        ],
    )


@asynccontextmanager
async def ran(root: Agent, *messages: str) -> AsyncIterator[list[Event]]:
    runner = Runner(root, store=SqlSessionStore("sqlite:///:memory:"))
    try:
        for message in messages:
            await (await runner.start(message, user="ann", session="s")).result()
        yield await runner.store.events(runner.key("ann", "s"))
    finally:
        await runner.close()


def record_of(graph: Graph, events: Iterable[Event]) -> FlowRecord | None:
    reading = FlowReader(graph.flow, graph)
    for event in events:
        reading.add(event)
    return reading.record


def states(record: FlowRecord | None) -> dict[str, tuple[str, str]]:
    assert record is not None
    return {name: (task.status.value, task.by) for name, task in record.tasks.items()}


async def test_a_run_that_waits_is_told_task_by_task() -> None:
    """D1, D2, D4: who is at work, what failed and why, and what is skipped for it before anybody says so."""
    flow = report()
    async with ran(flow, "Go") as events:
        record = record_of(flow.graph, events)
    assert states(record) == {
        "research": ("successful", "reader"),
        "judge/it": ("failed", "critic"),
        "mend": ("skipped", ""),
        "approve": ("running", "boss"),
    }
    assert record is not None
    assert record.tasks["research"].result == "three sources"
    assert "no mood" in record.tasks["judge/it"].reason
    assert "'judge/it' failed" in record.tasks["mend"].reason
    assert record.tasks["approve"].turns == (3,)
    assert (record.end, record.is_good) == (None, True)


async def test_turns_say_whose_they_were_and_why() -> None:
    flow = report()
    async with ran(flow, "Go") as events:
        record = record_of(flow.graph, events)
    assert record is not None
    assert [(turn.number, turn.agent, turn.tasks, turn.method, turn.is_over) for turn in record.turns] == [
        (1, "reader", ("research",), "popcorn", True),
        (2, "critic", ("judge/it",), "popcorn", True),
        (3, "boss", ("approve",), "popcorn", False),
    ]
    assert record.turns[0].reason == "Only reader has a ready task."
    assert [turn.question for turn in record.at_work] == ["Is it good?"]


async def test_an_answer_ends_the_question_and_the_run_its_end() -> None:
    flow = report()
    async with ran(flow, "Go", "yes") as events:
        reading = FlowReader("report", flow.graph)
        for event in events:
            reading.add(event)
            if event.text == "yes":
                assert reading.record is not None
                assert reading.record.turns[-1].question is None
    record = reading.record
    assert record is not None
    assert states(record)["approve"] == ("successful", "boss")
    assert (record.end, record.is_good, record.at_work) == ("failed", False, ())
    assert record.detail.endswith("'judge/it' failed: Agent 'critic' raised ValueError: no mood")


async def test_the_last_run_is_told_and_only_the_flows_own() -> None:
    inner = Flow("inner", [Task("x", agents=[does])])
    outer = Flow("outer", [Task("x", agents=[inner]), Task("again", agents=["inner"], depends_on=["x"])])
    async with ran(Sequential("both", [outer]), "Go", "Again") as events:
        record = record_of(inner.graph, events)
        above = record_of(outer.graph, events)
    assert record is not None
    assert above is not None
    assert record.invocation_id == above.invocation_id == events[-1].invocation_id
    assert [turn.tasks for turn in record.turns] == [("x",)]
    assert states(above) == {"x": ("successful", "inner"), "again": ("successful", "inner")}
    assert (above.end, above.answer) == ("complete", "done")


async def test_agents_side_by_side_are_at_work_at_once() -> None:
    """D13."""
    both = Flow("both", [Task("a", agents=[boss]), Task("b", agents=[reader])], side_by_side=2)
    async with ran(both, "Go") as events:
        record = record_of(both.graph, events)
    assert states(record) == {"a": ("running", "boss"), "b": ("successful", "reader")}


async def test_a_turn_whose_beginning_was_taken_back_is_known_by_its_agent() -> None:
    flow = report()
    async with ran(flow, "Go") as events:
        lost = [event.replace(actions=Actions()) if not event.text else event for event in events]
        record = record_of(flow.graph, [event for event in lost if event.author != "user"])
    assert record is not None
    assert [(turn.agent, turn.method) for turn in record.turns if turn.agent] == [("reader", ""), ("critic", ""), ("boss", "")]


async def test_nothing_is_read_where_nothing_ran_and_of_tasks_that_are_gone() -> None:
    flow = report()
    assert record_of(flow.graph, []) is None
    async with ran(reader, "Go") as events:
        assert record_of(flow.graph, events) is None
    async with ran(flow, "Go") as events:
        now = Flow("report", [Task("new", agents=["reader"])])
        record = record_of(now.graph, events)
    assert states(record) == {"new": (Status.PENDING.value, "")}


async def test_a_cancelled_run_is_at_an_end() -> None:
    flow = report()
    runner = Runner(flow, store=SqlSessionStore("sqlite:///:memory:"))
    invocation = await runner.start("Go", user="ann", session="s")
    await invocation.result()
    key = runner.key("ann", "s")
    await runner.sessions.cancel(key, str(invocation.id))
    record = record_of(flow.graph, await runner.store.events(key))
    await runner.close()
    assert record is not None
    assert (record.end, record.is_good) == ("cancelled", False)
    assert record.tasks["approve"].status is Status.PENDING


async def test_runs_that_overlap_are_kept_apart() -> None:
    """One waits while another message is answered: what it goes on with is its own."""
    flow = report()
    async with ran(flow, "Go", "yes") as events:
        cut = next(place for place, event in enumerate(events) if event.text == "yes")
        other = [event.replace(invocation_id="other") for event in events]
        record = record_of(flow.graph, [*events[:cut], *other, *events[cut:]])
        assert record == record_of(flow.graph, events)
        between = record_of(flow.graph, [*events[:cut], *other])
    assert between is not None
    assert (between.invocation_id, between.end) == ("other", "failed")


async def test_a_plan_tells_what_the_tasks_are() -> None:
    """D12: the tasks of such a flow are those that its log holds."""
    async with ran(planned(), "Go", "fine") as events:
        reading = FlowReader("plans")
        for event in events:
            reading.add(event)
    assert reading.graph is not None
    assert reading.graph.order == ("look", "approve")
    assert states(reading.record) == {"look": ("successful", "does"), "approve": ("successful", "boss")}
    assert reading.unplanned is None


async def test_a_run_without_a_plan_is_told_from_the_one_before_it() -> None:
    async with ran(planned(), "Go", "fine", "unsure", "me", "fine", "lost") as events:
        reading, seen = FlowReader("plans"), []
        for event in events:
            reading.add(event)
            if event.text in ("For whom?", "me"):
                seen.append(reading.unplanned)
    asked = next(event.invocation_id for event in events if event.text == "For whom?")
    assert seen == [UnplannedRun("plans", asked, asked_by="planner", question="For whom?"), UnplannedRun("plans", asked)]
    assert reading.unplanned is not None
    assert reading.unplanned.end == "failed"
    assert "no idea" in reading.unplanned.detail
    assert reading.record is not None
    assert reading.record.invocation_id == asked


async def test_a_plan_of_a_flow_below_another_is_its_own() -> None:
    outer = Flow("outer", [Task("x", agents=[planned()])])
    async with ran(outer, "Go", "fine") as events:
        reading = FlowReader("plans")
        for event in events:
            reading.add(event)
    assert reading.record is not None
    assert (reading.record.end, reading.record.answer) == ("complete", "fine")
