"""A plan: the tasks of a flow that are known only once it is asked, as data. Pure."""

import json
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, ValidationError

from turnwise.facts.content import Content, DataPart
from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.events import Event
from turnwise.facts.fact import Fact, optional
from turnwise.facts.spelling import did_you_mean
from turnwise.flows.control.logged import data_of, told_as
from turnwise.flows.tasks.fenced import unfenced
from turnwise.flows.tasks.graph import Graph
from turnwise.flows.tasks.misfits import misfits_found
from turnwise.flows.tasks.task import Task

PLAN = "plan"
"""The name of the data part that tells a plan."""
MISTAKES_SHOWN = 5
_FORM = "Answer with JSON alone, of the form that you were shown."


def _result(given: Any) -> Any:
    is_kind = given == "text" or isinstance(given, dict)
    if not is_kind and not (isinstance(given, list | tuple) and all(isinstance(label, str) for label in given)):
        raise ValueError('it has to be "text", a list of labels, or a JSON schema')
    return tuple(given) if isinstance(given, list) else given


class PlannedTask(Fact):
    """A task as it is planned. agents: the names of those who may do it. result: `text`, labels one of which is chosen, or a
    JSON schema. The rest as of Task.
    """

    name: str
    objective: str = ""
    agents: tuple[str, ...] = Field(min_length=1)
    depends_on: tuple[str, ...] = optional(())
    result: Annotated[Literal["text"] | tuple[str, ...] | dict[str, JsonValue], BeforeValidator(_result)] = optional("text")


class Plan(Fact):
    """The tasks, in the order that decides between those that are ready."""

    tasks: tuple[PlannedTask, ...] = Field(min_length=1)

    @property
    def agents(self) -> Sequence[str]:
        """The names of all who may do something, each once."""
        return tuple(dict.fromkeys(name for task in self.tasks for name in task.agents))

    def made(self) -> Sequence[Task]:
        """The tasks. FlowDefinitionError says what of one cannot be."""
        return [
            Task(
                task.name,
                task.objective,
                agents=task.agents,
                depends_on=task.depends_on,
                result=str if task.result == "text" else task.result,
            )
            for task in self.tasks
        ]


def read_plan(answer: Content) -> Plan:
    """The plan that an answer holds: as its last data, or as JSON in its text, which may stand in a fence.

    FlowDefinitionError, in words for whoever answered, when that is no plan.
    """
    written = _written(answer)
    try:
        return Plan.model_validate_json(written, extra="forbid")
    except ValidationError as error:
        told = misfits_found(error, "", most=MISTAKES_SHOWN)
    raise FlowDefinitionError(f"That is no plan: {told}.", fix=_FORM)


def refuse_unfit(plan: Plan, agents: Collection[str], most: int) -> None:
    """FlowDefinitionError when it has more tasks than that, or names others than these agents."""
    if len(plan.tasks) > most:
        raise FlowDefinitionError(f"The plan has {len(plan.tasks)} tasks, {most} are allowed.", fix="Make fewer, larger ones.")
    for task in plan.tasks:
        unknown = next((name for name in task.agents if name not in agents), None)
        if unknown is not None:
            problem = f"The task {task.name[:64]!r} names the agent {unknown[:64]!r}, which does not exist."
            raise FlowDefinitionError(problem, fix=did_you_mean(unknown, agents))


def plan_content(flow: str, plan: Plan) -> Content:
    """That the flow will do this."""
    return told_as(PLAN, {"flow": flow, **plan.model_dump(mode="json")})


def plan_of(event: Event) -> Plan | None:
    """The plan that the event tells; None when it tells none."""
    data = data_of(event, PLAN)
    if data is None:
        return None
    try:
        return Plan.model_validate({key: value for key, value in data.items() if key != "flow"}, strict=False)
    except ValidationError:
        return None  # guardrails rewrote it, or somebody else said it


def graph_of(flow: str, event: Event) -> Graph | None:
    """The tasks that the flow of that name says with this event that it will do; None when it does not say so, or guardrails
    left no graph of them.
    """
    plan = plan_of(event) if event.author == flow else None
    try:
        return Graph(flow, plan.made()) if plan is not None else None
    except FlowDefinitionError:
        return None


def _written(answer: Content) -> str:
    data = [part.data for part in answer.parts if isinstance(part, DataPart)]
    if data:
        return json.dumps(data[-1])
    return unfenced(answer.text)
