"""What the caller is shown of an answer."""

from typing import Any

import pytest
from logs import call, event

from turnwise.facts.callers import Caller
from turnwise.facts.content import DataPart, ThinkingPart
from turnwise.facts.events import Await
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.facts.waits import calls_in
from turnwise.gateway.openai.responses.response import Items, ResponseId
from turnwise.gateway.openai.responses.schema import CallItem, MessageItem
from turnwise.gateway.redaction import Redactor

NAME = ResponseId("s", "m")
TREE = AgentTree([AgentCard(name="a")])
WAITS = Await(id="k1", kind="tool_result")


def items_for(**rights: Any) -> Items:
    """Those that somebody is shown with these rights; by default an admin."""
    return Items(NAME, Redactor(Caller(id="c", **(rights or {"role": "admin"})), TREE))


def test_what_is_said_to_the_user_is_a_message() -> None:
    (item,) = items_for().of(event("a", "one", ThinkingPart(text="hm"), "two"))
    assert isinstance(item, MessageItem)
    assert (item.text, item.agent, item.status) == ("one\ntwo", "a", "completed")


def test_data_alone_is_said_as_json() -> None:
    (item,) = items_for().of(event("a", DataPart(data={"x": [1]})))
    assert isinstance(item, MessageItem)
    assert item.text == '{"x":[1]}'


def test_what_is_not_for_the_user_is_no_item() -> None:
    items = items_for()
    for other in (
        event("user", "hi"),
        event("a", "aside", branch="1/>a#1"),
        event("a", "on a task", scope=("flow/task",)),
        event("a", ThinkingPart(text="hm")),
        event("a", call("k9")),
    ):
        assert items.of(other) == []


def test_a_call_is_an_item_once_its_result_is_awaited() -> None:
    items = items_for()
    assert items.of(event("a", call("k1", city="Oslo"), call("k2"))) == []
    (item,) = items.of(event("a", awaits=WAITS))
    assert isinstance(item, CallItem)
    assert (item.name, item.arguments, item.call_id) == ("look", '{"city":"Oslo"}', NAME.call("k1"))
    assert items.of(event("a", awaits=WAITS)) == []  # stated again


def test_a_question_is_said_and_awaited() -> None:
    first, second = items_for().of(event("a", "May I?", call("k1", "confirm"), branch="1/>a#1", awaits=WAITS))
    assert (first.type, second.type) == ("message", "function_call")


def test_calls_that_were_made_before_may_still_be_waited_for() -> None:
    before = [event("a", call("k1")), event("user", "hi")]
    items = items_for()
    assert items.of(event("a", awaits=WAITS)) == []
    items = items_for()
    items.stream.know(calls_in(before))
    assert [item.type for item in items.of(event("a", awaits=WAITS))] == ["function_call"]


def test_what_is_no_json_is_told_as_the_model_wrote_it() -> None:
    broken = call("k1").replace(raw='{"city": ')
    (item,) = items_for().of(event("a", broken, awaits=WAITS))
    assert isinstance(item, CallItem)
    assert item.arguments == '{"city": '


@pytest.mark.parametrize(
    ("rights", "shown"),
    [({"role": "user"}, []), ({"role": "operator"}, []), ({"acts_for_users": True}, ["k1"]), ({"role": "admin"}, ["k1"])],
)
def test_what_an_agents_own_tool_works_on_is_put_to_those_who_can_say_what_it_gave(rights: Any, shown: list[str]) -> None:
    items = items_for(**rights)
    told = items.of(event("a", call("k1"), awaits=WAITS))
    assert [item.call_id for item in told if isinstance(item, CallItem)] == [NAME.call(id_) for id_ in shown]
    assert items.pending


def test_what_is_the_callers_to_do_is_put_to_every_caller() -> None:
    items = items_for(role="user")
    offered = call("k1").replace(offered=True)
    assert [item.type for item in items.of(event("a", offered, awaits=WAITS))] == ["function_call"]
    assert not items.pending
