import pytest

from turnwise.selection.contextual.wording import read_message, read_reply


@pytest.mark.parametrize("text", ["", "   ", "🙂🙂", "Где мой заказ?", "我想取消订单", "x" * 200, "\u200b\ufeff", "!?!"])
def test_texts_without_words_that_can_be_read(text: str) -> None:
    """C9"""
    assert read_message(text).unreadable


@pytest.mark.parametrize("text", ["yes", "12345", "¿Dónde está mi pedido?", "ok 👍", "a@b.example", "café"])
def test_texts_that_can_be_read(text: str) -> None:
    """C9"""
    assert not read_message(text).unreadable


@pytest.mark.parametrize("text", ["yes", "12345", "ok, 12", "what do you need", "and then?", "it is 1001", "1 2 3 4"])
def test_texts_that_name_nothing(text: str) -> None:
    """C9"""
    assert read_message(text).empty


@pytest.mark.parametrize(
    "text", ["parcel 12345", "w2", "AB-1001", "yes, the invoice", "I hate you", "I want 🍕", "12345 " * 400 + "my parcel"]
)
def test_texts_that_name_something(text: str) -> None:
    """C9"""
    assert not read_message(text).empty


@pytest.mark.parametrize("text", ["now back to my order", "let's return to the invoice", "Anyway, the parcel"])
def test_words_of_taking_up_again(text: str) -> None:
    """C9"""
    assert read_message(text).resumes
    assert not read_message("send it to the back office").resumes


def test_asking_for_somebody() -> None:
    """C9"""
    assert read_message("Let me talk to billing").calls
    assert read_message("please transfer me over to the tech team").calls
    assert not read_message("where is my parcel").calls


def test_the_verb_of_asking_for_somebody_is_nobodys_name() -> None:
    """C9: "transfer me to fraud" does not name `transfers`."""
    assert read_message("please transfer me to fraud").tokens == ("please", "fraud")
    assert read_message("a transfer to my daughter").tokens[:2] == ("a", "transfer")


def test_a_message_of_another_language_is_strange() -> None:
    assert read_message("ich möchte meine Bestellung stornieren").strange
    assert not read_message("I want to cancel my order").strange


def test_how_a_reply_ended() -> None:
    """C9"""
    assert read_reply("Sure. What is your order number?").question
    assert read_reply("Done. Is there anything else I can help you with?").offers
    assert read_reply("Your table is booked.").done
    assert read_reply("I'm sorry, I can't help with that.").refuses
    assert not read_reply("").anything


def test_long_texts_are_read_in_part() -> None:
    assert len(read_message("word " * 40_000).tokens) <= 400
