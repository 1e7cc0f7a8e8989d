"""What a request says beside its messages."""

from typing import Any

import pytest

from turnwise.facts.errors import RequestInvalid
from turnwise.gateway.ag_ui.schema import RunBody
from turnwise.gateway.ag_ui.start import Props, offers_in, props_of


def body(**more: Any) -> RunBody:
    return RunBody.model_validate({"messages": [], **more})


def test_fields_of_ours_and_the_rest() -> None:
    given = {"agent": "a", "channel": "web", "user_kind": None, "questions": "message", "other": {"x": None}}
    assert props_of(body(forwardedProps=given)) == Props("a", "web", None, False, {"other": {"x": None}})
    assert props_of(body()) == Props(None, None, None, None, {})
    assert props_of(body(forwardedProps={"questions": "interrupt"})).questions is True
    assert props_of(body(forwardedProps=[1])).attributes == {"forwardedProps": [1]}
    context = [{"description": "d", "value": "v"}]
    assert props_of(body(context=context)).attributes == {"context": context}


@pytest.mark.parametrize("given", [{"agent": 1}, {"channel": []}, {"questions": "no"}, {"questions": {}}])
def test_fields_that_hold_something_else(given: Any) -> None:
    with pytest.raises(RequestInvalid) as refused:
        props_of(body(forwardedProps=given))
    assert refused.value.where == ("body", "forwardedProps", next(iter(given)))


def test_tools() -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    tools = [{"name": "f", "description": "d", "parameters": schema}, {"name": "g", "description": "", "parameters": {}}]
    first, second = offers_in(body(tools=tools))
    assert (first.name, first.description, first.parameters) == ("f", "d", schema)
    assert second.parameters == {"type": "object", "properties": {}}
    with pytest.raises(RequestInvalid):
        offers_in(body(tools=[{"name": "f", "description": "", "parameters": "x"}]))
