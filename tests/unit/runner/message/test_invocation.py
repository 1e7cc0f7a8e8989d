"""What the stored events of a message amount to."""

from datetime import UTC, datetime
from typing import Any

import pytest

from turnwise.facts.content import text_content
from turnwise.facts.events import USER, Actions, Await, End, ErrorInfo, Event
from turnwise.runner.message.invocation import result_of

FAILED = ErrorInfo(code="agent.failed", message="Agent 'a' raised ValueError.")


def event(number: int, author: str, text: str = "", **fields: Any) -> Event:
    content = text_content(text) if text else None
    about: dict[str, Any] = {"invocation_id": "i", "sequence": number, "created_at": datetime.now(UTC)}
    return Event(id=f"e{number}", author=author, content=content, **about, **fields)


def asked() -> list[Event]:
    return [event(1, USER, "Go."), event(2, "a", error=FAILED)]


@pytest.mark.parametrize("reason", ["failed", "cancelled", "limit:turns", "loop"])
def test_an_error_explains_an_end_that_is_not_good(reason: Any) -> None:
    result = result_of([*asked(), event(3, "flow", actions=Actions(end=End(reason=reason)))])
    assert result.error == FAILED


def test_what_failed_on_the_way_to_a_good_end_is_no_error_of_the_whole() -> None:
    """A task of a flow for example, that it could do without."""
    result = result_of([*asked(), event(3, "flow", "Done.", actions=Actions(end=End()))])
    assert (result.text, result.error) == ("Done.", None)
    assert any(each.error for each in result.events)


def test_what_waits_has_not_failed_yet() -> None:
    wait = Actions(awaits=Await(id="w", kind="reply"))
    result = result_of([*asked(), event(3, "b", "How long?", actions=wait)])
    assert (result.waiting, result.error) == (True, None)
