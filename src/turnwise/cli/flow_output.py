"""Shows flows and their runs at the terminal and as JSON data."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from turnwise.cli import rendering
from turnwise.cli.rendering import fit_table
from turnwise.cli.terminal import one_line
from turnwise.facts.tree import AgentTree
from turnwise.flows.design import TURNS_PER_TASK, Design
from turnwise.flows.drawing import SIGNS, agents_text, heading
from turnwise.flows.flow import Flow
from turnwise.flows.planned import AnyFlow, PlannedFlow
from turnwise.flows.record import FlowRecord, TaskRecord, TurnRecord, UnplannedRun
from turnwise.flows.result_types import ResultType
from turnwise.flows.tasks import Graph, Status
from turnwise.flows.turns import result_text

_DEPTH = 4
_ANYTHING = "data"
RESULT_CHARACTERS = 100
STYLES: Mapping[Status, str] = {
    Status.SUCCESSFUL: "green",
    Status.RUNNING: "bold cyan",
    Status.FAILED: "red",
    Status.SKIPPED: "yellow",
    Status.PENDING: "dim",
}


def flow_lines(flow: AnyFlow, tree: AgentTree, width: int | None = None) -> Iterator[Text]:
    """Describes a flow: its tasks, or how each run plans them.

    Args:
        width: of the terminal; None = unlimited.
    """
    if isinstance(flow, Flow):
        return definition_lines(flow.design, width)
    if isinstance(flow, PlannedFlow):
        return _planned_summary(flow, tree, width)
    return iter([_heading_line(flow.card.name, "asks all agents that a message is for", "side by side", "a task each")])


def definition_lines(design: Design, width: int | None = None) -> Iterator[Text]:
    """Lists a flow's tasks in an executable order, with its strategy and limits."""
    run_rules = design.rules
    rules = [
        f"strategy {run_rules.strategy.name}",
        f"at most {design.max_turns} turns",
        *_parallel_text(run_rules.side_by_side),
    ]
    yield _heading_line(design.graph.flow, heading(design.graph, None), *rules)
    yield from _definitions(design.graph, width, design.agents)


def plan_lines(graph: Graph, width: int | None = None) -> Iterator[Text]:
    """Lists the tasks that were planned for a run."""
    yield _heading_line("plan", heading(graph, None))
    yield from _definitions(graph, width)


def run_lines(graph: Graph, record: FlowRecord, width: int | None = None) -> Iterator[Text]:
    """The status of a run: every task, then every turn with the reason for its agent."""
    yield _heading_line(record.flow, heading(graph, record))
    yield from _tasks([record.tasks[name] for name in graph.order], width)
    yield Text()
    rows: list[list[str | Text]] = [
        [str(turn.number), _agent(turn), one_line(", ".join(turn.tasks)), rendering.styled(_reason(turn), "dim")]
        for turn in record.turns
    ]
    yield from fit_table(("turn", "agent", "tasks", "because"), rows, width, right=("turn",))
    for turn in record.at_work:
        if turn.question is not None:
            yield question_line(turn.agent, turn.question)
    if record.end is not None:
        yield Text()
        yield end_line(record)
        if not record.is_good and record.detail:
            yield rendering.indent(rendering.styled(one_line(record.detail), "dim"))


def unplanned_run_lines(run: UnplannedRun) -> Iterator[Text]:
    """The status of a run that has no plan yet, or ended without one."""
    yield _heading_line(run.flow, "no plan yet" if run.end is None else f"ended without a plan: {run.end}")
    if run.question is not None:
        yield question_line(run.asked_by, run.question)
    if run.detail:
        yield rendering.indent(rendering.styled(one_line(run.detail), "dim"))


def short_status_lines(graph: Graph, record: FlowRecord | None, rows: int) -> Iterator[Text]:
    """The tasks in at most that many rows; if there are more, running tasks come first."""
    tasks = [record.tasks[name] if record else TaskRecord(name) for name in graph.order]
    if len(tasks) > rows:
        ranked = [Status.RUNNING, Status.PENDING, Status.FAILED, Status.SKIPPED, Status.SUCCESSFUL]
        tasks.sort(key=lambda task: ranked.index(task.status))
    yield from _tasks(tasks[:rows])
    if left := Counter(task.status for task in tasks[rows:]):
        listed = ", ".join(f"{count} {status.value}" for status, count in left.items())
        yield rendering.styled(f"   … and {listed}", "dim")


def change_lines(before: FlowRecord | None, after: FlowRecord) -> Iterator[Text]:
    """The changes between two states of a run, a line each: turns that began and tasks that ended."""
    known = {turn.number: turn.agent for turn in before.turns} if before else {}
    for turn in after.turns:
        if turn.agent and not known.get(turn.number):
            line = rendering.styled("→ ", "dim").append(one_line(turn.agent), style="bold cyan")
            tasks = one_line(", ".join(turn.tasks))
            yield line.append(f" · {tasks}").append(f" · {one_line(turn.method)}" if turn.method else "", style="dim")
    for name, task in after.tasks.items():
        ended = before is not None and before.tasks[name].status.is_complete
        if task.status.is_complete and not ended:
            line = _status_sign(task).append(f" {one_line(name)}", style="bold")
            yield line.append(f" {task.status.value}").append(f" · {_outcome(task)}" if _outcome(task) else "", style="dim")


def question_line(agent: str, question: str) -> Text:
    """A question and the agent that asks it."""
    return rendering.styled(f"{one_line(agent)} asks: ", "bold").append(one_line(question))


def end_line(record: FlowRecord) -> Text:
    """How a run ended, with the number of turns and model calls."""
    line = rendering.styled(one_line(record.end or ""), "bold green" if record.is_good else "bold red")
    turns, calls = len(record.turns), record.model_calls
    told = [f"{turns} turn{'' if turns == 1 else 's'}"]
    told += [f"{calls} model call{'' if calls == 1 else 's'}"] if calls else []
    return line.append(f" · {' · '.join(told)}", style="dim")


def _planned_summary(flow: PlannedFlow, tree: AgentTree, width: int | None) -> Iterator[Text]:
    """Describes a planned flow: its planner, its limits, and the agents with the descriptions that the planner sees."""
    run_rules = flow.rules
    turns = f"at most {run_rules.max_turns} turns" if run_rules.max_turns else f"at most {TURNS_PER_TASK} turns a task"
    rules = [
        f"at most {flow.max_tasks} tasks",
        f"strategy {run_rules.strategy.name}",
        turns,
        *_parallel_text(run_rules.side_by_side),
    ]
    yield _heading_line(flow.card.name, f"planned by {flow.planner}", *rules)
    rows: list[list[str | Text]] = [
        [one_line(name), rendering.styled(one_line(tree.card(name).description), "dim")] for name in flow.agents
    ]
    yield from fit_table(("agent", "description"), rows, width)


def _heading_line(name: str, *told: str) -> Text:
    return rendering.styled(one_line(name), "bold").append(f" · {' · '.join(map(one_line, told))}", style="dim")


def _parallel_text(agents: int) -> Sequence[str]:
    return [f"{agents} side by side"] if agents > 1 else []


def _definitions(graph: Graph, width: int | None, agents: Sequence[str] = ()) -> Iterator[Text]:
    """The task table.

    Args:
        agents: the agents of tasks that name none.
    """
    rows: list[list[str | Text]] = []
    for name in graph.order:
        task = graph.tasks[name]
        needs = ", ".join(graph.needs[name]) + (" (always)" if task.run_if == "always" else "")
        told = (name, agents_text(task.agent_names or agents), needs, result_type_name(task.result))
        rows.append([*map(one_line, told), rendering.styled(one_line(task.objective), "dim")])
    return fit_table(("task", "agents", "needs", "result", "objective"), rows, width)


def _tasks(tasks: Sequence[TaskRecord], width: int | None = None) -> Iterator[Text]:
    """The table of a run's tasks."""
    rows: list[list[str | Text]] = [
        [
            _status_sign(task),
            one_line(task.name),
            rendering.styled(task.status.value, STYLES[task.status]),
            one_line(task.by),
            ", ".join(map(str, task.turns)),
            rendering.styled(_outcome(task), "dim"),
        ]
        for task in tasks
    ]
    return fit_table(("", "task", "state", "by", "turns", "result"), rows, width)


def _status_sign(task: TaskRecord) -> Text:
    return rendering.styled(SIGNS[task.status], STYLES[task.status])


def _outcome(task: TaskRecord) -> str:
    """The result of a task, or the reason why it has none."""
    if task.status is Status.SUCCESSFUL:
        return one_line(result_text(task.result), RESULT_CHARACTERS)
    return one_line(task.reason)


def _agent(turn: TurnRecord) -> Text:
    return rendering.styled(one_line(turn.agent), "" if turn.is_over else STYLES[Status.RUNNING])


def _reason(turn: TurnRecord) -> str:
    return one_line(f"{turn.method} · {turn.reason}" if turn.reason else turn.method)


def result_type_name(result: ResultType) -> str:
    """The type of a task's result in a few words: `text`, `integer`, `list of Note`, `one of yes, no`; `data` if it has no
    short name.
    """
    if result.labels:
        return f"one of {', '.join(result.labels)}"
    return "text" if result.schema is None else _type_name(result.schema, _DEPTH)


def _type_name(schema: Any, depth: int) -> str:
    """Returns a short name for a JSON schema."""
    if not isinstance(schema, Mapping) or not depth:
        return _ANYTHING
    reference, title, kind = schema.get("$ref"), schema.get("title"), schema.get("type")
    if isinstance(reference, str):
        return reference.rpartition("/")[2] or _ANYTHING
    if isinstance(title, str):
        return title
    if isinstance(schema.get("enum"), list):
        return f"one of {', '.join(map(str, schema['enum']))}"
    if isinstance(schema.get("anyOf"), list):
        return " or ".join(dict.fromkeys(_type_name(each, depth - 1) for each in schema["anyOf"]))
    if kind == "array":
        return f"list of {_type_name(schema.get('items'), depth - 1)}"
    if kind == "string":
        return "text"
    return kind if isinstance(kind, str) else _ANYTHING


def definition_data(flow: str, graph: Graph | None, agents: Sequence[str] = ()) -> dict[str, Any]:
    """A flow's definition as JSON data: its tasks in an executable order; None if each run plans its own.

    Args:
        agents: the agents of tasks that name none.
    """
    return {"flow": flow, "tasks": None if graph is None else [_task_data(graph, name, agents) for name in graph.order]}


def run_data(run: FlowRecord | UnplannedRun) -> dict[str, Any]:
    """A run's status as JSON data: its tasks, turns, questions and end. `end` is null while it runs or waits."""
    told: dict[str, Any] = {"flow": run.flow, "invocation_id": run.invocation_id, "end": run.end, "detail": run.detail}
    if isinstance(run, UnplannedRun):
        asked = [{"agent": run.asked_by, "question": run.question}] if run.question is not None else []
        return {**told, "answer": "", "tasks": None, "turns": [], "questions": asked}
    return {
        **told,
        "answer": run.answer,
        "tasks": [_task_record_data(task) for task in run.tasks.values()],
        "turns": [_turn_data(turn) for turn in run.turns],
        "questions": [{"agent": turn.agent, "question": turn.question} for turn in run.at_work if turn.question is not None],
    }


def _task_data(graph: Graph, name: str, agents: Sequence[str]) -> dict[str, Any]:
    """Returns a task as JSON data."""
    task = graph.tasks[name]
    return {
        "name": name,
        "objective": task.objective,
        "agents": list(task.agent_names or agents),
        "needs": list(graph.needs[name]),
        "run_if": task.run_if,
        "interactive": task.interactive,
    }


def _task_record_data(task: TaskRecord) -> dict[str, Any]:
    return {**task._asdict(), "status": task.status.value, "turns": list(task.turns)}


def _turn_data(turn: TurnRecord) -> dict[str, Any]:
    return {**turn._asdict(), "tasks": list(turn.tasks)}
