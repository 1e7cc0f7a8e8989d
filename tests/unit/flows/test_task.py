"""Tasks: what they hold, and what cannot be one (behaviour D1)."""

from typing import Any

import pytest

from turnwise.agents.function import agent
from turnwise.facts.errors import ConfigError, FlowDefinitionError
from turnwise.flows.tasks import Status, Task
from turnwise.tools.function import tool


@agent
def writer(message: str) -> str:
    return message


@tool
def look_up(word: str) -> str:
    """Finds a word."""
    return word


def test_what_is_not_given_is_plain() -> None:
    task = Task("draft")
    assert (task.name, task.objective, task.agents, task.agent_names) == ("draft", "", (), ())
    assert (task.depends_on, task.parent, task.tools) == ((), None, ())
    assert (task.interactive, task.run_if, task.result.schema) == (False, "success", None)
    assert repr(task) == "Task('draft')"


def test_agents_and_tasks_are_given_as_themselves_or_by_name() -> None:
    plan = Task("plan")
    task = Task("draft", agents=[writer, "editor"], depends_on=[plan, "facts", plan], parent=Task("book"))
    assert task.agents == (writer, "editor")
    assert task.agent_names == ("writer", "editor")
    assert task.depends_on == ("plan", "facts")
    assert task.parent == "book"
    assert Task("draft", parent="book").parent == "book"


def test_a_function_becomes_a_tool() -> None:
    def count(words: list[str]) -> int:
        """Counts words."""
        return len(words)

    task = Task("draft", tools=[look_up, count])
    assert [each.spec.name for each in task.tools] == ["look_up", "count"]
    assert task.tools[0] is look_up


@pytest.mark.parametrize("name", ["", "x" * 65, " draft", "draft ", "a\nb", "a\u200bb", "user", 7, None])
def test_names_that_no_task_can_have(name: Any) -> None:
    with pytest.raises(FlowDefinitionError, match=r"cannot be a task's name.*1 to 64 printable") as caught:
        Task(name)
    assert len(caught.value.problem) < 200


@pytest.mark.parametrize("name", ["x" * 64, "Entwurf: Größe/Maß", "草稿", "a b"])
def test_names_that_a_task_can_have(name: str) -> None:
    assert Task(name).name == name


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"agents": "writer"}, "agents is a str.*Give a list"),
        ({"agents": {"writer"}}, "agents is a set"),
        ({"agents": [7]}, "an int is no agent"),
        ({"agents": [""]}, "'' is no agent"),
        ({"agents": ["x" * 100]}, "x' is no agent"),
        ({"agents": [writer, "writer"]}, "two agents named 'writer'"),
        ({"depends_on": "plan"}, "depends_on is a str"),
        ({"agents": [lambda: "x"]}, "a function is no agent.*@agent"),
        ({"agents": [type(writer)]}, "the class FunctionAgent is no agent"),
        ({"agents": [None]}, "None is no agent"),
        ({"depends_on": [7]}, "an int is no task"),
        ({"parent": 7}, "an int is no task"),
        ({"objective": [writer]}, r"its objective is a list.*agents=\["),
        ({"objective": None}, "its objective is None"),
        ({"interactive": "yes"}, "interactive is a str. Give True or False"),
        ({"tools": look_up}, "tools is a FunctionTool"),
        ({"tools": ["look_up"]}, "a str is no tool"),
        ({"tools": [look_up, look_up]}, "two tools named 'look_up'"),
        ({"run_if": "never"}, "run_if is 'never'.*'success' or 'always'"),
        ({"result": []}, "labels have to be texts"),
    ],
)
def test_what_a_task_cannot_be_names_the_task_and_the_field(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(FlowDefinitionError, match=words) as caught:
        Task("draft", **fields)
    assert "'draft'" in caught.value.problem
    assert caught.value.fix


def test_a_function_that_no_model_could_call_is_refused() -> None:
    def anything(*words: str) -> None: ...

    with pytest.raises(ConfigError, match="cannot fill its parameter"):
        Task("draft", tools=[anything])


def test_the_last_three_states_are_complete() -> None:
    assert [status for status in Status if status.is_complete] == [Status.SUCCESSFUL, Status.FAILED, Status.SKIPPED]
    assert [status for status in Status if status.is_success] == [Status.SUCCESSFUL]
    assert [str(status) for status in Status] == ["pending", "running", "successful", "failed", "skipped"]
