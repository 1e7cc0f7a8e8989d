"""A conversation as a request tells it, in exchanges."""

from turnwise.facts.content import TextPart, ToolCallPart
from turnwise.gateway.shared.exchanges import INSTRUCTIONS, Exchanges, joined_instructions

CALL = ToolCallPart(call_id="k1", tool="look")


def text(words: str) -> TextPart:
    return TextPart(text=words)


def test_what_is_sent_behind_an_answer_is_another_exchange() -> None:
    told = Exchanges()
    told.answer("Welcome.")
    told.send([text("a")])
    told.send([text("b")])
    told.answer("1", "")
    told.answer("2", calls=[CALL])
    told.send([text("c")])
    assert [(turn.sent.text, turn.text, turn.calls) for turn in told.past] == [("", "Welcome.", ()), ("a\nb", "1\n2", (CALL,))]
    assert (told.sent, told.answered) == ([text("c")], False)


def test_what_was_answered_last_is_past_when_it_is_closed() -> None:
    told = Exchanges()
    told.send([text("a")])
    told.answer()
    assert (told.past, told.answered) == ([], True)
    told.close()
    told.close()
    assert ([turn.sent.text for turn in told.past], told.sent) == (["a"], [])


def test_what_is_wanted_beside_the_message() -> None:
    assert joined_instructions(["", " "]) is None
    found = joined_instructions(["Be short.", "", "Be kind."])
    assert found is not None
    assert (found.name, found.data) == (INSTRUCTIONS, "Be short.\n\nBe kind.")
