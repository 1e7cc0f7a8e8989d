"""What the caller is shown of an answer."""

from logs import call, event

from turnwise.facts.content import DataPart, ThinkingPart
from turnwise.facts.events import Await
from turnwise.gateway.openai.responses.items import Items, calls_in
from turnwise.gateway.openai.responses.names import Name
from turnwise.gateway.openai.responses.shape import CallItem, MessageItem

NAME = Name("s", "m")
WAITS = Await(id="k1", kind="tool_result")


def test_what_is_said_to_the_user_is_a_message() -> None:
    (item,) = Items(NAME).of(event("a", "one", ThinkingPart(text="hm"), "two"))
    assert isinstance(item, MessageItem)
    assert (item.text, item.agent, item.status) == ("one\ntwo", "a", "completed")


def test_data_alone_is_said_as_json() -> None:
    (item,) = Items(NAME).of(event("a", DataPart(data={"x": [1]})))
    assert isinstance(item, MessageItem)
    assert item.text == '{"x":[1]}'


def test_what_is_not_for_the_user_is_no_item() -> None:
    items = Items(NAME)
    for other in (
        event("user", "hi"),
        event("a", "aside", branch="1/>a#1"),
        event("a", "on a task", scope=("flow/task",)),
        event("a", ThinkingPart(text="hm")),
        event("a", call("k9")),
    ):
        assert items.of(other) == []


def test_a_call_is_an_item_once_its_result_is_awaited() -> None:
    items = Items(NAME)
    assert items.of(event("a", call("k1", city="Oslo"), call("k2"))) == []
    (item,) = items.of(event("a", awaits=WAITS))
    assert isinstance(item, CallItem)
    assert (item.name, item.arguments, item.call_id) == ("look", '{"city":"Oslo"}', NAME.call("k1"))
    assert items.of(event("a", awaits=WAITS)) == []  # stated again


def test_a_question_is_said_and_awaited() -> None:
    first, second = Items(NAME).of(event("a", "May I?", call("k1", "confirm"), branch="1/>a#1", awaits=WAITS))
    assert (first.type, second.type) == ("message", "function_call")


def test_calls_that_were_made_before_may_still_be_waited_for() -> None:
    before = [event("a", call("k1")), event("user", "hi")]
    items = Items(NAME)
    assert items.of(event("a", awaits=WAITS)) == []
    items = Items(NAME)
    items.know(calls_in(before))
    assert [item.type for item in items.of(event("a", awaits=WAITS))] == ["function_call"]


def test_what_is_no_json_is_told_as_the_model_wrote_it() -> None:
    broken = call("k1").model_copy(update={"raw": '{"city": '})
    (item,) = Items(NAME).of(event("a", broken, awaits=WAITS))
    assert isinstance(item, CallItem)
    assert item.arguments == '{"city": '
