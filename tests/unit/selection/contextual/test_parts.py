import pytest

from turnwise.selection.contextual.parts import halves


@pytest.mark.parametrize(
    ("text", "first", "second"),
    [
        ("Send me the invoice. Also, when do you open on Sunday?", "Send me the invoice.", "when do you open on Sunday?"),
        ("cancel my order and tell me the weather in Rome", "cancel my order", "tell me the weather in Rome"),
        ("I want to pay my bill; then book a taxi to the airport", "I want to pay my bill;", "book a taxi to the airport"),
    ],
)
def test_two_requests_are_taken_apart(text: str, first: str, second: str) -> None:
    """C9"""
    assert halves(text) == (first, second)


@pytest.mark.parametrize(
    "text", ["yes and thanks", "bread and butter", "Where is my order?", "", "Hi. Where is my order?", "x and y"]
)
def test_one_request_is_left_whole(text: str) -> None:
    """C9"""
    assert halves(text) is None


def test_a_story_is_left_whole() -> None:
    assert halves("Send me the invoice. " * 100) is None
