import pytest

from turnwise.selection.contextual.wording import said, wording


@pytest.mark.parametrize("text", ["", "   ", "🙂🙂", "Где мой заказ?", "我想取消订单", "x" * 200, "\u200b\ufeff", "!?!"])
def test_texts_without_words_that_can_be_read(text: str) -> None:
    """C9"""
    assert wording(text).unreadable


@pytest.mark.parametrize("text", ["yes", "12345", "¿Dónde está mi pedido?", "ok 👍", "a@b.example", "café"])
def test_texts_that_can_be_read(text: str) -> None:
    """C9"""
    assert not wording(text).unreadable


@pytest.mark.parametrize("text", ["yes", "12345", "ok, 12", "what do you need", "and then?", "it is 1001", "1 2 3 4"])
def test_texts_that_name_nothing(text: str) -> None:
    """C9"""
    assert wording(text).empty


@pytest.mark.parametrize(
    "text", ["parcel 12345", "w2", "AB-1001", "yes, the invoice", "I hate you", "I want 🍕", "12345 " * 400 + "my parcel"]
)
def test_texts_that_name_something(text: str) -> None:
    """C9"""
    assert not wording(text).empty


@pytest.mark.parametrize("text", ["now back to my order", "let's return to the invoice", "Anyway, the parcel"])
def test_words_of_taking_up_again(text: str) -> None:
    """C9"""
    assert wording(text).resumes
    assert not wording("send it to the back office").resumes


def test_asking_for_somebody() -> None:
    """C9"""
    assert wording("Let me talk to billing").calls
    assert wording("please transfer me over to the tech team").calls
    assert not wording("where is my parcel").calls


def test_the_verb_of_asking_for_somebody_is_nobodys_name() -> None:
    """C9: "transfer me to fraud" does not name `transfers`."""
    assert wording("please transfer me to fraud").tokens == ("please", "fraud")
    assert wording("a transfer to my daughter").tokens[:2] == ("a", "transfer")


def test_a_message_of_another_language_is_strange() -> None:
    assert wording("ich möchte meine Bestellung stornieren").strange
    assert not wording("I want to cancel my order").strange


def test_how_a_reply_ended() -> None:
    """C9"""
    assert said("Sure. What is your order number?").question
    assert said("Done. Is there anything else I can help you with?").offers
    assert said("Your table is booked.").done
    assert said("I'm sorry, I can't help with that.").refuses
    assert not said("").anything


def test_long_texts_are_read_in_part() -> None:
    assert len(wording("word " * 40_000).tokens) <= 400
