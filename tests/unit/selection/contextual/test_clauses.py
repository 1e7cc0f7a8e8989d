"""A message's clauses, and the questions that agents leave open (behaviour C9)."""

import pytest

from turnwise.selection.contextual.wording import (
    MAX_CLAUSES,
    SPLIT_CHARACTERS,
    answer_fit,
    clauses_of,
    last_question,
    question_kind,
    read_message,
    read_reply,
)


@pytest.mark.parametrize(
    ("text", "clauses"),
    [
        ("Great, thanks. find me a hotel", ("find me a hotel",)),
        ("Size 44 fits. And can you book a table for two?", ("Size 44 fits.", "And can you book a table for two?")),
        ("The blue lamp, and can you tell me the weather?", ("The blue lamp", "and can you tell me the weather?")),
        ("ok - also cancel my order", ("also cancel my order",)),
        ("my dog, a poodle, ate chocolate", ()),
        ("Meet Dr. Smith at noon", ()),
        ("", ()),
    ],
)
def test_clauses_are_told_apart(text: str, clauses: tuple[str, ...]) -> None:
    """C9: a clause that only accepts or thanks is left out; a message of one clause has none."""
    assert clauses_of(text) == clauses


def test_a_long_message_has_few_clauses() -> None:
    """C9: of many the first and the last; a story has none."""
    told = " ".join(f"The lamp number {number} is broken." for number in range(9))
    assert len(clauses_of(told)) == MAX_CLAUSES
    assert clauses_of(told)[0] == "The lamp number 0 is broken."
    assert clauses_of(told)[-1] == "The lamp number 8 is broken."
    assert clauses_of("The lamp is broken. " * SPLIT_CHARACTERS) == ()


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("When do you want to leave?", "when"),
        ("Sure. What time works for you?", "when"),
        ("How many tickets?", "count"),
        ("Where will you be departing from", "where"),
        ("May I have your name? It is for the ticket.", "yesno"),
        ("What's your name?", "who"),
        ("Which one would you like?", "which"),
        ("I found two. Would you like the first?", "yesno"),
        ("It is at nine. Is that okay?", "yesno"),
        ("Please confirm: three tickets to Rome.", "yesno"),
        ("It left on Monday.", ""),
        ("", ""),
    ],
)
def test_a_question_asks_for_something(reply: str, kind: str) -> None:
    """C9: the last question counts."""
    assert question_kind(reply.casefold()) == kind


def test_the_last_question_is_found() -> None:
    """C9"""
    assert last_question("Hello. Shall I send it? It is free.") == "Shall I send it?"
    assert last_question("Please confirm. Three tickets.") == "Three tickets."
    assert last_question("") == ""


@pytest.mark.parametrize(
    ("reply", "message", "fit"),
    [
        ("Shall I send it?", "yes please", 1.0),
        ("Shall I send it?", "what are your hours?", -0.5),
        ("When do you leave?", "tomorrow at 5 pm", 1.0),
        ("When do you leave?", "yes", -0.5),
        ("How many people?", "four of us", 1.0),
        ("How many people?", "what do you sell?", 0.0),
        ("From where?", "I leave from Fresno", 1.0),
        ("What's your name?", "Maria Lopez", 1.0),
        ("It left.", "yes", 0.0),
    ],
)
def test_the_form_of_a_message_answers_a_question_or_not(reply: str, message: str, fit: float) -> None:
    """C9: a time answers when, a number how many, yes a decision; a question answers nothing."""
    assert answer_fit(read_reply(reply), read_message(message)) == fit


@pytest.mark.parametrize("text", ["no that's not what I asked", "I meant the other one", "wrong department, sorry"])
def test_a_user_complains_of_an_answer(text: str) -> None:
    """C9"""
    assert read_message(text).complains


@pytest.mark.parametrize("text", ["that is what I wanted", "no thanks", "I want the blue one", "my order is not here"])
def test_other_messages_are_no_complaints(text: str) -> None:
    """C9"""
    assert not read_message(text).complains


@pytest.mark.parametrize(
    "reply", ["I'm afraid that is not something I handle.", "I can only help with orders.", "Let me transfer you to billing."]
)
def test_an_agent_says_that_a_matter_is_not_its(reply: str) -> None:
    """C9"""
    assert read_reply(reply).disclaims
    assert not read_reply("I can help with that. Which order?").disclaims
