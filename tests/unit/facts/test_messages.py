"""Messages and their context."""

from pydantic import JsonValue

from turnwise.facts.content import text_content
from turnwise.facts.messages import Message, MessageContext, OfferedTool


def test_a_message_survives_a_round_trip() -> None:
    context = MessageContext(direct_agent_id="a", previous_agents=("b",), roles=("r",), attributes={"customer": {"id": 1}})
    message = Message(id="m", content=text_content("hi", "user"), context=context)
    assert Message.model_validate_json(message.model_dump_json()) == message


def test_offered_tools_survive_a_round_trip_and_cost_nothing_when_there_are_none() -> None:
    schema: dict[str, JsonValue] = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = (OfferedTool(name="show", description="Shows it.", parameters=schema), OfferedTool(name="now"))
    context = MessageContext(tools=tools)
    assert MessageContext.model_validate_json(context.model_dump_json()) == context
    assert "tools" not in MessageContext().model_dump_json()
    assert OfferedTool(name="now").parameters == {"type": "object", "properties": {}}


def test_a_newer_callers_context_is_kept() -> None:
    written = MessageContext(channel="voice").model_dump_json()[:-1] + ',"mood":"ok"}'
    assert MessageContext.model_validate_json(written).model_dump_json() == written
