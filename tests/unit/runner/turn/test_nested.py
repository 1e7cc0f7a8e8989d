"""What those whom an agent runs know of the message."""

from typing import Any

import pytest

from turnwise.facts.content import Content
from turnwise.facts.events import Branch
from turnwise.facts.messages import MessageContext, OfferedTool
from turnwise.ports.assignment import EVERYTHING, Assignment
from turnwise.runner.turn.context import nested_assignment, nested_context

OFFERS = MessageContext(channel="web", roles=("staff",), tools=(OfferedTool(name="show"),))


class Assigned:
    """An assignment with these tools, of which nothing else is asked."""

    by, giver, request, tasks, scope, instructions, is_over = "flow", "flow", Content(), (), EVERYTHING, "", False

    def __init__(self, *tools: Any) -> None:
        self.tools = tools

    async def succeed(self, *_: Any, **__: Any) -> None: ...

    fail = end_turn = succeed


TASKS: Assignment = Assigned("task_succeeded")
RELAYED: Assignment = Assigned()


@pytest.mark.parametrize(
    ("branch", "assignment", "names"),
    [
        ("1/a#0", None, ["show"]),
        ("1/~a", None, ["show"]),
        ("1/a#0", RELAYED, ["show"]),
        ("1/a#0", nested_assignment(RELAYED), ["show"]),
        ("1/a#0", TASKS, []),
        ("1/>a#1", None, []),
        ("1/>a#1/b#0", None, []),
    ],
)
def test_the_callers_tools_are_for_who_answers_the_caller(branch: str, assignment: Assignment | None, names: list[str]) -> None:
    below = nested_context(OFFERS, Branch(branch), assignment)
    assert [tool.name for tool in below.tools] == names
    assert (below.channel, below.roles) == ("web", ("staff",))


def test_who_has_none_gives_none_on() -> None:
    """A part of an agent that does a task of a flow has no tools of the flow, and none of the caller's either."""
    whole = nested_context(OFFERS, Branch("1/team#0"), TASKS)
    assert nested_context(whole, Branch("1/team#0/a#0"), nested_assignment(TASKS)) is whole
