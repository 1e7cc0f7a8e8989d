"""Messages in languages that the encoder does not know: patterns, names, who has the conversation, and a question."""

import asyncio

import pytest

from turnwise import AgentContext, RunConfig, SqlSessionStore, agent
from turnwise.agents import Agent
from turnwise.facts.content import text_content
from turnwise.facts.errors import PolicyError
from turnwise.facts.selections import Selection
from turnwise.facts.texts import text_in
from turnwise.guardrails import BannedTopics
from turnwise.models import CallableEncoder
from turnwise.ports.encoder import Encoder, languages_of
from turnwise.runner.runner import Runner
from turnwise.selection import named_policy
from turnwise.selection.reader import KnownLanguages
from turnwise.testing import BagOfWordsEncoder

GERMAN = "Ich möchte gern mein Paket zurückschicken"


def shop(*more: str, encoder: Encoder | None = None, question: object = "Did you mean:") -> Runner:
    @agent(examples=["Where is my parcel?", "Track my package", "When does my order arrive?", *more])
    def orders(message: str) -> str:
        return "Which order is it?"

    @agent(examples=["I want my money back", "I need an invoice", "You charged me twice"], patterns=[r"\brechnung\b"])
    def billing(message: str) -> str:
        return "On Friday."

    @agent(examples=["When do you open?"], patterns=[{"regex": "sonntag", "confidence": 0.5}])
    def hours(message: str) -> str:
        return "From 9 to 18."

    @agent(children=[orders, billing, hours], examples=["Hello"])
    def desk(message: str) -> str:
        return "How can I help?"

    root: Agent = desk
    policy = named_policy("default", options={"clarify": {"question": question}})  # type: ignore[dict-item]
    encoder = encoder or BagOfWordsEncoder(languages=["en"])
    return Runner(root, store=SqlSessionStore("sqlite://"), policy=policy, encoder=encoder)


def said(runner: Runner, *messages: str) -> list[tuple[Selection, str]]:
    results = [runner.run_sync(each, user="ada", session="s") for each in messages]
    return [(result.selection, result.text) for result in results if result.selection]


def test_the_user_is_asked_when_nothing_points_to_an_agent() -> None:
    ((selection, text),) = said(shop(question={"other": "Did you mean:", "de": "Meinten Sie:"}), GERMAN)
    assert selection.outcome == "clarify"
    assert selection.reason == "The message is in German, which the encoder does not know, so the user is asked."
    assert text.startswith("Meinten Sie:\n1. ")
    assert selection.request is not None
    assert selection.request.language == "de"


def test_the_agent_that_has_the_conversation_keeps_it() -> None:
    _, (selection, _) = said(shop(), "Where is my parcel?", "es sollte doch gestern schon ankommen")
    assert (selection.agent, selection.method) == ("orders", "contextual_stay")
    assert (
        selection.reason == "stays: the message is in German, which the encoder does not know, and orders has the conversation."
    )


@pytest.mark.parametrize(
    ("text", "chosen", "why"),
    [
        ("Ich habe eine Rechnung bekommen", "billing", "goes to billing: a pattern of billing matches"),
        (
            "Ich will lieber mit billing sprechen bitte",
            "billing",
            "goes to billing: the message names billing; the message is",
        ),
        ("habt ihr denn auch am sonntag offen", "hours", "goes to hours: a pattern of hours matches; the message is in German"),
    ],
)
def test_patterns_and_names_come_first(text: str, chosen: str, why: str) -> None:
    _, (selection, _) = said(shop(), "Track my package", text)
    assert selection.agent == chosen
    assert selection.reason.startswith(why)


def test_agents_with_texts_in_the_language_are_compared() -> None:
    runner = shop("Wo ist mein Paket geblieben", "Ich möchte mein Paket verfolgen")
    ((selection, _),) = said(runner, "Wo ist denn mein Paket geblieben")
    assert (selection.agent, selection.method) == ("orders", "contextual_route")


def test_an_encoder_that_knows_the_language_reads_it() -> None:
    """A multilingual encoder says which languages it knows; one that says nothing counts as knowing all."""
    meanings = {"wo ist mein paket hin": "where is my parcel", "где моя посылка сейчас": "where is my parcel"}
    english = BagOfWordsEncoder()

    def multilingual(texts: list[str]) -> object:
        return english.encode([meanings.get(text.casefold().rstrip("?"), text) for text in texts])

    knows = CallableEncoder(multilingual, fingerprint="fake-multilingual-1", is_local=True, languages=["en", "de", "ru"])
    for text in ("Wo ist mein Paket hin?", "Где моя посылка сейчас?"):
        ((selection, _),) = said(shop(encoder=knows), text)
        assert (selection.agent, selection.method) == ("orders", "contextual_route"), text
    silent = CallableEncoder(multilingual, fingerprint="fake-multilingual-2", is_local=True)
    assert languages_of(silent) is None
    assert KnownLanguages(silent, lambda: ()).unknown(GERMAN) is None


def test_english_and_short_texts_are_not_foreign() -> None:
    known = KnownLanguages(BagOfWordsEncoder(languages=["en"]), lambda: ("Where is it?",))
    assert [known.unknown(each) for each in ("Where is my parcel?", "ok", "Paul Meier", "BX-4431")] == [None] * 4
    assert known.unknown(GERMAN) == "de"


def test_a_text_by_language_has_a_fallback_and_bounds() -> None:
    texts = {"other": "Sorry.", "de": "Leider nicht."}
    assert [text_in(texts, each) for each in ("de", "fr", None)] == ["Leider nicht.", "Sorry.", "Sorry."]
    assert text_in("Sorry.", "de") == "Sorry."
    for wrong in ({}, {"german": "x"}, {"de": ""}, {"other": "x" * 501}):
        with pytest.raises(PolicyError):
            shop(question=wrong)


async def test_refusals_and_limits_are_said_in_the_language_of_the_message() -> None:
    reason = {"other": "No.", "de": "Nein."}
    banned = ["what do you think of the election", "was denkst du denn über die wahl"]
    topics = BannedTopics(banned, encoder=BagOfWordsEncoder(), reason=reason)
    for text, said_instead in zip(banned, ("No.", "Nein."), strict=True):
        assert (await topics.check("message", text_content(text), None)).reason == said_instead

    @agent
    async def slow(context: AgentContext) -> str:
        await asyncio.sleep(60)
        return "Done."

    config = RunConfig(deadline_seconds=0.05, limit_text={"other": "Too long.", "de": "Das dauert zu lange."})
    runner = Runner(slow, store=SqlSessionStore("sqlite://"), config=config)
    for text, detail in ((GERMAN, "Das dauert zu lange."), ("Where is it?", "Too long.")):
        result = await (await runner.start(text, user="ada", session="s")).result()
        assert result.end is not None
        assert (result.end.reason, result.end.detail) == ("limit:invocation_seconds", detail)
    await runner.close()
