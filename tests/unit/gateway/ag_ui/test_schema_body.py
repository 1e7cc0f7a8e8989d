"""What is taken of a request, and what is left out of it."""

from typing import Any

import pytest
from pydantic import ValidationError

from turnwise.gateway.ag_ui.schema import MOST_DEEP, RunBody
from turnwise.gateway.shared.exchanges import MOST_MESSAGES

SAID = {"id": "1", "role": "user", "content": "hi"}


def read(*messages: Any, **more: Any) -> RunBody:
    return RunBody.model_validate({"messages": list(messages), **more})


def test_ids_may_be_missing_and_names_are_the_wires_or_pythons() -> None:
    assert (read().thread_id, read().run_id) == ("", "")
    assert read(threadId="t").thread_id == read(thread_id="t").thread_id == "t"


def test_what_a_newer_client_sends_is_left_out() -> None:
    parts = [{"type": "text", "text": "see"}, {"type": "hologram"}, {"type": "image", "source": {"type": "beam"}}]
    body = read({"id": "0", "role": "ghost"}, {**SAID, "content": parts}, later=1)
    (message,) = body.messages
    assert [part.text for part in message.content] == ["see"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "messages",
    [[{"id": "1"}], [{**SAID, "content": None}], ["hi"], [{**SAID, "content": [{"type": "text"}]}], [{**SAID, "role": 1}]],
)
def test_what_is_malformed_is_a_mistake(messages: list[Any]) -> None:
    with pytest.raises(ValidationError):
        read(*messages)


def test_there_are_not_too_many() -> None:
    with pytest.raises(ValidationError):
        read(*[SAID] * (MOST_MESSAGES + 1))
    with pytest.raises(ValidationError):
        read(resume=[{"interruptId": "i", "status": "cancelled"}] * 1_001)


def test_it_is_not_nested_without_end() -> None:
    deep: Any = 1
    for _ in range(MOST_DEEP):
        deep = [deep]
    assert read(state=deep[0][0]).state
    for more in ({"state": deep}, {"forwardedProps": {"x": deep}}, {"later": deep}):
        with pytest.raises(ValidationError, match="nested"):
            read(**more)
    with pytest.raises(ValidationError, match="nested"):
        read({**SAID, "content": [{"type": "text", "text": "see", "metadata": deep}]})
