"""What a request says beside its messages."""

from typing import Any

import pytest

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.ag_ui.schema import RunBody
from turnwise.gateway.ag_ui.start import ForwardedProps, forwarded_props, offered_tools


def body(**more: Any) -> RunBody:
    return RunBody.model_validate({"messages": [], **more})


def test_fields_of_ours_and_the_rest() -> None:
    given = {"agent": "a", "channel": "web", "user_kind": None, "questions": "message", "other": {"x": None}}
    assert forwarded_props(body(forwardedProps=given)) == ForwardedProps("a", "web", None, False, {"other": {"x": None}})
    assert forwarded_props(body()) == ForwardedProps(None, None, None, None, {})
    assert forwarded_props(body(forwardedProps={"questions": "interrupt"})).questions is True
    assert forwarded_props(body(forwardedProps=[1])).attributes == {"forwardedProps": [1]}
    context = [{"description": "d", "value": "v"}]
    assert forwarded_props(body(context=context)).attributes == {"context": context}


@pytest.mark.parametrize("given", [{"agent": 1}, {"channel": []}, {"questions": "no"}, {"questions": {}}])
def test_fields_that_hold_something_else(given: Any) -> None:
    with pytest.raises(RequestInvalid) as refused:
        forwarded_props(body(forwardedProps=given))
    assert refused.value.where == ("body", "forwardedProps", next(iter(given)))


def test_tools() -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    tools = [{"name": "f", "description": "d", "parameters": schema}, {"name": "g", "description": "", "parameters": {}}]
    first, second = offered_tools(body(tools=tools))
    assert (first.name, first.description, first.parameters) == ("f", "d", schema)
    assert second.parameters == {"type": "object", "properties": {}}
    with pytest.raises(RequestInvalid):
        offered_tools(body(tools=[{"name": "f", "description": "", "parameters": "x"}]))
