"""Functions as tasks: what is taken from the function, and what cannot be one."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from turnwise.agents.function import agent
from turnwise.facts.errors import FlowDefinitionError
from turnwise.flows.flow import TaskFunction


def count(request: str, words: list[str], most: int = 3) -> int:
    """Count the words.

    All of them.
    """
    return min(len(words), most)


def yields() -> Iterator[str]:
    yield "a"


async def yields_later() -> AsyncIterator[str]:
    yield "a"


def starred(*words: str) -> str:
    return ""


def wants_weather(weather: str) -> str:
    return weather


def annotated() -> "Unheard":  # type: ignore[name-defined]  # noqa: F821
    return 1


@agent
def writer(message: str) -> str:
    return message


def test_a_task_is_what_its_function_says() -> None:
    made = TaskFunction(count, {"depends_on": ["words"]})
    task = made.task
    assert (task.name, task.objective, task.depends_on) == ("count", "Count the words.", ("words",))
    assert task.result.schema == {"type": "integer"}
    assert (made.card.name, made.card.description, task.agents) == ("count", "Count the words.", (made,))
    assert made("x", ["a", "b"]) == 2


def test_what_is_given_counts_more() -> None:
    task = TaskFunction(count, {"name": "tell", "objective": "Tell.", "result": ["few", "many"], "depends_on": ["words"]}).task
    assert (task.name, task.objective, task.result.labels) == ("tell", "Tell.", ("few", "many"))


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (3, {}, "An int cannot be made a task. Write @flow.task before a function"),
        ("count", {}, "A str cannot be made a task."),
        (int, {}, "The class int cannot be made a task."),
        (writer, {}, "A FunctionAgent cannot be made a task."),
        (count, {"depends": []}, "Task 'count': there is no option 'depends'. Did you mean 'depends_on'?"),
        (count, {"agents": [writer]}, "Task 'count' is done by its function, so it takes no agents."),
        (count, {"name": 3}, "A task's name is an int. Give it as name=…."),
        (count, {"objective": 3}, "Task 'count': its objective is an int."),
        (yields, {}, "Task 'yields': its function yields. Let it return its result."),
        (yields_later, {}, "Task 'yields_later': its function yields."),
        (starred, {}, "Task 'starred': the parameter 'words' cannot be filled by its name. Take * and /"),
        (dict.fromkeys, {}, "Task 'fromkeys': "),
        (annotated, {}, "Task 'annotated': the annotations of its function cannot be read: name 'Unheard' is not defined."),
        (wants_weather, {}, "A parameter is context, request, or a task named in depends_on, or has a default."),
        (wants_weather, {"depends_on": ["wind", "sky"]}, "a task named in depends_on (wind, sky), or has a default."),
    ],
)
def test_what_cannot_be_a_task_is_told(function: Callable[..., Any], options: dict[str, Any], says: str) -> None:
    with pytest.raises(FlowDefinitionError) as raised:
        TaskFunction(function, options)
    assert says in str(raised.value)
    assert raised.value.fix
