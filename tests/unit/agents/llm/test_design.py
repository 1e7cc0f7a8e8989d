from typing import Any

import pytest
from pydantic import BaseModel

from turnwise.agents.llm.design import OutputTool
from turnwise.facts.errors import AgentDefinitionError, ToolFailed
from turnwise.ports.tool import ToolCall


class Node(BaseModel):
    name: str
    below: list["Node"] = []


def call(**arguments: Any) -> ToolCall:
    return ToolCall("c", arguments, None)  # type: ignore[arg-type]


async def test_a_type_that_holds_itself_is_an_object_or_is_wrapped() -> None:
    """Its definitions stay at the root, where references look for them."""
    plain, wrapped = OutputTool(Node, "clerk"), OutputTool(list[Node], "clerk")
    assert "$defs" in wrapped.spec.parameters
    assert wrapped.spec.parameters["required"] == ["result"]
    assert await wrapped.run(call(result=[{"name": "a"}])) == [{"name": "a", "below": []}]
    assert plain.spec.parameters.get("properties", {}).keys() <= {"name", "below", "result"}  # type: ignore[union-attr]


async def test_what_does_not_fit_is_told_without_what_was_given() -> None:
    with pytest.raises(ToolFailed, match="name: Field required") as failed:
        await OutputTool(Node, "clerk").run(call(**({"result": {}} if OutputTool(Node, "c")._is_wrapped else {})))
    assert "secret" not in str(failed.value)


async def test_many_problems_are_counted() -> None:
    with pytest.raises(ToolFailed, match=r"0: .*9: .*\(10 more\)"):
        await OutputTool(list[int], "clerk").run(call(result=["x"] * 20))


@pytest.mark.parametrize("type_", [object(), type("Odd", (), {})])
def test_a_type_without_a_schema_is_refused_by_the_agents_name(type_: Any) -> None:
    with pytest.raises(AgentDefinitionError, match="'clerk': output_type"):
        OutputTool(type_, "clerk")
