"""A response is made again from its message alone."""

from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise.facts.content import Content, DataPart, text_content
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.messages import Message, MessageContext
from turnwise.gateway.openai.responses.response import (
    PARAMETERS_ATTRIBUTE,
    ResponseId,
    context_of,
    created_at,
    new_message,
    new_response,
    seconds,
)
from turnwise.gateway.openai.responses.schema import Create

NAME = ResponseId("s", "m")


def test_what_was_asked_comes_back() -> None:
    body = Create(
        model="desk",
        metadata={"order": "7"},
        previous_response_id="resp_1",
        background=True,
        temperature=0.5,
        user="u",
        tools=[{"type": "function", "name": "look", "description": "Looks."}],  # type: ignore[list-item]
    )
    context = context_of(body)
    assert context.attributes["order"] == "7"  # agents find it there
    content = Content(parts=(DataPart(name="instructions", data="Briefly."), *text_content("hi").parts))
    read = MessageContext.model_validate_json(context.model_dump_json())
    blank = new_response(NAME, Message(id="m", content=content, context=read), None)
    assert (blank.id, blank.status, blank.model, blank.instructions) == (NAME.id, "in_progress", "desk", "Briefly.")
    assert (blank.metadata, blank.previous_response_id, blank.background) == ({"order": "7"}, "resp_1", True)
    assert (blank.temperature, blank.user, blank.conversation, blank.output, blank.usage) == (0.5, "u", None, [], None)
    assert [(tool["type"], tool["name"], tool["description"]) for tool in blank.tools] == [("function", "look", "Looks.")]


def test_metadata_picks_a_segment() -> None:
    """Behaviour C18."""
    context = context_of(Create(metadata={"channel": "phone", "user_kind": "vip"}))
    assert (context.channel, context.user_kind) == ("phone", "vip")
    assert new_response(NAME, Message(id="m", content=Content(), context=context), None).metadata == {
        "channel": "phone",
        "user_kind": "vip",
    }


def test_when_it_was_asked() -> None:
    id_, begun = new_message(), datetime(2026, 1, 1, tzinfo=UTC)
    made = created_at(id_)
    assert made is not None
    assert new_response(NAME, Message(id=id_, content=Content()), begun).created_at == seconds(made)
    assert new_response(NAME, Message(id="m", content=Content()), begun).created_at == seconds(begun)


def test_a_message_that_came_by_another_way_has_what_is_usual() -> None:
    context = MessageContext(attributes={"customer": 7, "plan": "gold", PARAMETERS_ATTRIBUTE: "not ours"})
    blank = new_response(NAME, Message(id="m", content=text_content("hi"), context=context), None)
    assert (blank.model, blank.metadata, blank.instructions, blank.created_at) == ("turnwise", {"plan": "gold"}, None, 0)


def test_our_key_is_not_for_others() -> None:
    with pytest.raises(RequestInvalid) as refused:
        context_of(Create(metadata={PARAMETERS_ATTRIBUTE: "x"}))
    assert refused.value.where == ("body", "metadata", PARAMETERS_ATTRIBUTE)


@pytest.mark.parametrize(
    "kept", [{"model": 5}, {"conversation": 7}, {"temperature": "hot"}, {"text": []}, {"previous_response_id": {}}]
)
def test_nor_does_it_break_what_others_put_there(kept: Any) -> None:
    context = MessageContext(attributes={PARAMETERS_ATTRIBUTE: {"model": "other", **kept}, "plan": "gold"})
    blank = new_response(NAME, Message(id="m", content=text_content("hi"), context=context), None)
    assert (blank.model, blank.metadata, blank.conversation) == ("turnwise", {"plan": "gold"}, None)
