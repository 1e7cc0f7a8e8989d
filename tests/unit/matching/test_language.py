"""The language of a text: clear, or none."""

import pytest

from turnwise.matching.language import NAMES, language_name, language_of


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Ich möchte mein Paket zurückschicken", "de"),
        ("wann kommt mein paket", "de"),
        ("¿Dónde está mi pedido?", "es"),
        ("je ne peux pas me connecter", "fr"),
        ("Vorrei un rimborso per favore", "it"),
        ("ik heb een vraag over mijn rekening", "nl"),
        ("chcę zwrócić zamówienie", "pl"),
        ("minha internet caiu", "pt"),
        ("我的包裹在哪里", "zh"),
        ("配送状況を教えてください", "ja"),
        ("أين طلبي", "ar"),
        ("Where is my parcel?", "en"),
        ("please send Crème brûlée and a café au lait", "en"),
        ("how do you say 'Wo ist der Bahnhof' in English", "en"),
    ],
)
def test_a_clear_text_has_a_language(text: str, language: str) -> None:
    assert language_of(text) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ok",
        "ok danke",
        "gracias",
        "Paul Meier",
        "Kim Vogt, Ben Achterberg, Luisa Prado",
        "Hauptstraße 5, 80331 München",
        "D. Achterberg, Nordring 101",
        "BX-4431-77",
        "12345",
        "asdf jkl qwer uiop zxcv",
        "lorem ipsum dolor sit amet",
        "🙂🙂🙂",
        "?!",
        "def f(x): return x.split()",
        "https://example.com/de/produkte/kaffee",
    ],
)
def test_short_texts_names_addresses_and_codes_have_none(text: str) -> None:
    assert language_of(text) is None


def test_a_long_text_is_read_from_its_beginning() -> None:
    assert language_of("Ich habe eine Frage zu meiner Rechnung. " + "9" * 100_000) == "de"


def test_a_language_has_a_name() -> None:
    assert language_name("de") == "German"
    assert language_name("xx") == "xx"
    assert all(len(code) == 2 for code in NAMES)
