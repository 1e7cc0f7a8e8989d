"""A task as the root of a runner."""

import pytest

from turnwise import Flow, Runner, Task, agent
from turnwise.agents.members import as_agent
from turnwise.facts.errors import FlowDefinitionError, TreeError


@agent
def writer(message: str) -> str:
    return f"a poem about {message}"


def test_a_task_is_run_as_a_flow_of_one_task() -> None:
    runner = Runner(Task("poem", "Write a poem.", agents=[writer]))
    result = runner.run_sync("owls")
    assert result.end is not None
    assert result.end.reason == "completed"
    assert result.text.startswith("a poem about")
    assert [card.name for card in runner.tree] == ["poem", "writer"]
    assert runner.tree.card("poem").kind == "flow"
    assert runner.tree.card("poem").description == "Write a poem."


def test_the_same_task_may_be_part_of_a_flow() -> None:
    task = Task("poem", agents=[writer])
    assert Runner(task).run_sync("owls").text == Runner(Flow("book", [task])).run_sync("owls").text


def test_a_task_that_cannot_be_done_alone_is_refused() -> None:
    with pytest.raises(FlowDefinitionError, match="No agent can do the task 'poem'"):
        Runner(Task("poem"))
    with pytest.raises(FlowDefinitionError, match="depends"):
        Runner(Task("poem", agents=[writer], depends_on=["facts"]))


def test_only_what_makes_an_agent_of_itself_is_one() -> None:
    assert as_agent(writer) is writer
    with pytest.raises(TreeError):
        Runner(Task)  # type: ignore[arg-type]
