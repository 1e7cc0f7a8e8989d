"""The definition of a task (behaviour D1)."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, Literal, Union, get_args

from turnwise.facts.errors import FlowDefinitionError
from turnwise.facts.tree import NAME_CHARACTERS, check_name
from turnwise.flows.argument_checks import agent_name, as_tuple, check_bool, check_text, kind_capitalized, kind_of
from turnwise.flows.tasks.result_types import ResultType
from turnwise.ports.agent import Agent
from turnwise.ports.tool import Tool
from turnwise.tools.function import FunctionTool

RunIf = Literal["success", "always"]


class Status(StrEnum):
    """The status of a task. The last three are final."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESSFUL = "successful"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def is_complete(self) -> bool:
        return self not in (Status.PENDING, Status.RUNNING)

    @property
    def is_success(self) -> bool:
        return self is Status.SUCCESSFUL


class Task:
    """Work to be done in a flow, with a result. It keeps no state of a run, so one task may be in several flows.

    Args:
        name: Unique in its flow.
        objective: The work, in words for the agent that does it.
        agents: The agents that may do it, as objects or names; none means any agent of the flow.
        depends_on: Tasks that must be complete before, as objects or names.
        parent: The task that this one is a part of. The parent is ready when all its parts are complete.
        result: The type of the result; see `ResultType`.
        tools: Tools for a model that works on the task, besides its agent's own.
        interactive: Allows questions to the user.
        run_if: With `success`, the task is skipped if a task that it needs fails or is skipped. With `always`, it runs
            anyway.

    Raises:
        FlowDefinitionError: A value is not valid.
        ConfigError: A function cannot be a tool.
    """

    def __init__(
        self,
        name: str,
        objective: str = "",
        *,
        agents: Sequence[Agent | str] = (),
        depends_on: Sequence[Union["Task", str]] = (),
        parent: Union["Task", str, None] = None,
        result: Any = str,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        interactive: bool = False,
        run_if: RunIf = "success",
    ) -> None:
        _check_name(name)
        if run_if not in get_args(RunIf):
            raise FlowDefinitionError(f"Task {name!r}: run_if is {run_if!r}.", fix="Use 'success' or 'always'.")
        owner = f"Task {name!r}"
        self.name: Final = name
        self.objective: Final = check_text(
            owner, "its objective", objective, instead="Give a text; agents stand in agents=[…]."
        )
        self.agents: Final[tuple[Agent | str, ...]] = as_tuple(owner, "agents", agents)
        self.agent_names: Final = tuple(agent_name(owner, agent) for agent in self.agents)
        self.depends_on: Final = tuple(
            dict.fromkeys(task_name(owner, each) for each in as_tuple(owner, "depends_on", depends_on))
        )
        self.parent: Final = None if parent is None else task_name(owner, parent)
        self.result: Final = ResultType(result, name)
        self.tools: Final[tuple[Tool, ...]] = tuple(_tool(owner, each) for each in as_tuple(owner, "tools", tools))
        self.interactive: Final = check_bool(owner, "interactive", interactive)
        self.run_if: Final[RunIf] = run_if
        _check_distinct(owner, "agents", self.agent_names)
        _check_distinct(owner, "tools", [tool.spec.name for tool in self.tools])

    def __repr__(self) -> str:
        return f"Task({self.name!r})"


def _check_name(name: object) -> None:
    """Raises FlowDefinitionError for an invalid task name."""
    try:
        if not isinstance(name, str):
            raise ValueError
        check_name(name)
    except ValueError:
        shown = repr(name[:NAME_CHARACTERS]) if isinstance(name, str) else kind_capitalized(name)
        raise FlowDefinitionError(
            f"{shown} cannot be a task's name.",
            fix=f"Use 1 to {NAME_CHARACTERS} printable characters without space at the ends, and not 'user'.",
        ) from None


def task_name(owner: str, given: Task | str) -> str:
    """Returns the name of a task given as an object or by its name. Raises FlowDefinitionError for other values."""
    if isinstance(given, Task):
        return given.name
    if isinstance(given, str):
        return given
    raise FlowDefinitionError(f"{owner}: {kind_of(given)} is no task.", fix="Give tasks, or their names.")


def _tool(owner: str, given: Any) -> Tool:
    """Returns a tool, made of a function if necessary. Raises FlowDefinitionError."""
    if hasattr(given, "spec") and hasattr(given, "rules"):
        tool: Tool = given
        return tool
    if callable(given) and not hasattr(given, "card"):
        return FunctionTool(given)
    raise FlowDefinitionError(f"{owner}: {kind_of(given)} is no tool.", fix="Give tools, or functions.")


def _check_distinct(owner: str, field: str, names: Sequence[str]) -> None:
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise FlowDefinitionError(f"{owner} has two {field} named {twice[0]!r}.", fix="Take one away, or rename it.")
