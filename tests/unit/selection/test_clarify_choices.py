"""Reading a choice without a model, and how choices are shown (E5)."""

import pytest

from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.selection.clarify import Answer, choices_of, question_text, read_answer

TREE = AgentTree(
    [
        AgentCard(name="root"),
        AgentCard(name="orders", parent="root", description="Tells where an order is. Cancels it too."),
        AgentCard(name="returns", parent="root", description="Takes things back"),
        AgentCard(name="password_reset", parent="root"),
        AgentCard(name="Gift Cards", parent="root", description="x" * 300),
    ]
)
OFFERED = choices_of(TREE, ["orders", "returns", "password_reset", "Gift Cards"])


def place(text: str) -> int | None:
    answer = read_answer(text, OFFERED)
    return answer.position if answer is not None and answer.kind == "chosen" else None


def kind(text: str) -> str | None:
    answer = read_answer(text, OFFERED)
    return answer.kind if answer else None


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("2", 1),
        (" 2. ", 1),
        ("2)", 1),
        ("#2", 1),
        ("２", 1),
        ("2️⃣", 1),
        ("٢", 1),
        ("number 2 please", 1),
        ("No. 2", 1),
        ("option two", 1),
        ("Two!", 1),
        ("the second one", 1),
        ("second", 1),
        ("2nd", 1),
        ("I'd like the SECOND, please", 1),
        ("let's go with 3", 2),
        ("the first", 0),
        ("option one", 0),
        ("one", 0),
        ("the last one", 3),
        ("yes, the first one", 0),
    ],
)
def test_by_number(text: str, chosen: int) -> None:
    """E5"""
    assert place(text) == chosen


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("returns please", 1),
        ("Returns", 1),
        ("return", 1),
        ("RET", 1),
        ("the orders department", 0),
        ("I meant orders", 0),
        ("password", 2),
        ("password_reset", 2),
        ("it's the password reset", 2),
        ("gift cards", 3),
        ("gift card, thanks", 3),
    ],
)
def test_by_name(text: str, chosen: int) -> None:
    """E5: words, or beginnings of words, that only one choice has."""
    assert place(text) == chosen


@pytest.mark.parametrize(
    "text",
    ["neither", "Neither of them.", "none of these", "no", "nope", "no, none of those", "something else", "None, thanks"],
)
def test_neither(text: str) -> None:
    """E5"""
    assert kind(text) == "declined"


@pytest.mark.parametrize("text", ["neither, I want to change my address", "None of these: where is a store?"])
def test_neither_and_more(text: str) -> None:
    """E5: what follows is a request of its own."""
    assert kind(text) == "declined_for_more"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "👍",
        "5",
        "0",
        "99",
        "12345",
        "1 and 2",
        "yes",
        "ok",
        "please",
        "the one",
        "order 2 kettles for me",
        "I want to change my address",
        "orders and returns",
        "no, where is my parcel",
        "re",
        "(((",
        "<next>@orders</next>",
        "x" * 10_000,
    ],
)
def test_anything_else_is_no_choice(text: str) -> None:
    """E5: it is left to the selectors, as any other message."""
    assert read_answer(text, OFFERED) is None


def test_not_this_one() -> None:
    two = OFFERED[:2]
    assert read_answer("not orders", two) == Answer("chosen", 1, "its name")
    assert read_answer("not that", two) is None
    assert read_answer("not orders", OFFERED) is None


def test_a_whole_name_beats_the_beginning_of_another() -> None:
    tree = AgentTree(
        [AgentCard(name=name, parent=None if name == "root" else "root") for name in ("root", "gift", "gift cards")]
    )
    both = choices_of(tree, ["gift cards", "gift"])
    assert read_answer("gift", both) == Answer("chosen", 1, "its name")
    assert read_answer("gift cards", both) == Answer("chosen", 0, "its name")


def test_an_agent_may_be_named_like_a_word_of_politeness() -> None:
    tree = AgentTree([AgentCard(name="root"), AgentCard(name="desk", parent="root"), AgentCard(name="team", parent="root")])
    assert read_answer("the team please", choices_of(tree, ["desk", "team"])) == Answer("chosen", 1, "its name")


def test_how_they_are_shown() -> None:
    """E5: a label and one sentence each."""
    assert question_text(OFFERED[:3], "Which is it?") == (
        "Which is it?\n1. Orders – Tells where an order is\n2. Returns – Takes things back\n3. Password reset"
    )
    assert OFFERED[3].label == "Gift Cards"
    assert len(OFFERED[3].description) == 100
    assert OFFERED[0].as_data() == {"agent": "orders", "label": "Orders", "description": "Tells where an order is"}


def test_who_is_gone_keeps_its_number() -> None:
    """Decision 10: names are identity; what was shown as the second stays the second."""
    assert [each.label for each in choices_of(TREE, ["ghost", "orders"])] == ["Ghost", "Orders"]


def test_an_abbreviation_does_not_cut_a_description() -> None:
    tree = AgentTree(
        [
            AgentCard(name="root"),
            AgentCard(
                name="visits", parent="root", description="Books visits with Dr. Smith, e.g. for a cough. Cancels them too."
            ),
        ]
    )
    assert choices_of(tree, ["visits"])[0].description == "Books visits with Dr. Smith, e.g. for a cough"
