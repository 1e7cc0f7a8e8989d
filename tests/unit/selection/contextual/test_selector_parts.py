import pytest

from turnwise.selection.contextual.wording import Part, parts_beside_answer, split_requests


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
    assert split_requests(text) == (first, second)


@pytest.mark.parametrize(
    "text",
    [
        "I want to see Dr. Smith about my broken knee",
        "I need a big suitcase, e.g. the blue one with wheels",
        "Book the flight at 5 p.m. from the old airport in Rome",
        "Cancel the large order No. 5 of the red kettles",
        "Send the invoice to Mrs. J. F. Kennedy at her office address",
        "Compare the silver plan vs. the gold plan with travel cover",
        "Pay the bill of Acme Corp. on Monday through the bank",
    ],
)
def test_an_abbreviation_is_no_end_of_a_request(text: str) -> None:
    """C9"""
    assert split_requests(text) is None


def test_two_requests_around_an_abbreviation_are_taken_apart() -> None:
    """C9"""
    assert split_requests("Book a visit with Dr. Smith at 5 p.m. Can you also send me the invoice?") == (
        "Book a visit with Dr. Smith at 5 p.m.",
        "Can you also send me the invoice?",
    )


@pytest.mark.parametrize(
    "text", ["yes and thanks", "bread and butter", "Where is my order?", "", "Hi. Where is my order?", "x and y"]
)
def test_one_request_is_left_whole(text: str) -> None:
    """C9"""
    assert split_requests(text) is None


def test_a_story_is_left_whole() -> None:
    assert split_requests("Send me the invoice. " * 100) is None


@pytest.mark.parametrize(
    ("text", "part", "asks"),
    [
        ("Thursday please. Do you have cat litter in the big bags?", "Do you have cat litter in the big bags?", True),
        ("friday, and what would the dental cost roughly", "what would the dental cost roughly", True),
        ("I will, until when are you open?", "until when are you open?", True),
        ("55120; also the new router has not arrived", "the new router has not arrived", False),
    ],
)
def test_a_request_beside_an_answer_is_found(text: str, part: str, asks: bool) -> None:
    """C9"""
    assert Part(part, asks) in parts_beside_answer(text)


@pytest.mark.parametrize("text", ["", "yes", "red", "the blue one, 10412", "Never mind. How do I pay?", "Yes. " * 200])
def test_an_answer_alone_has_no_parts_beside_it(text: str) -> None:
    """C9: and what is taken back is no answer."""
    assert parts_beside_answer(text) == ()
