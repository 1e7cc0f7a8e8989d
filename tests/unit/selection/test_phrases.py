"""What a card says, as phrases."""

import pytest

from turnwise.facts.tree import AgentCard, AgentTree, LearnedExample, Skill
from turnwise.matching.match import Phrase
from turnwise.selection.phrases import capabilities_of, phrases_of, words_of


def of(tree: AgentTree, name: str, default: str | None = None) -> list[Phrase]:
    return [phrase for phrase in phrases_of(tree, default) if phrase.label == name]


def test_examples_skills_description_and_name_count() -> None:
    billing = AgentCard(
        name="billing_agent",
        parent="root",
        description="Invoices and refunds.",
        examples=("Where is my invoice?",),
        skills=(Skill(name="payBack", description="Gives money back.", examples=("I want my money back",)),),
    )
    assert of(AgentTree([AgentCard(name="root"), billing]), "billing_agent") == [
        Phrase("billing_agent", "Where is my invoice?"),
        Phrase("billing_agent", "I want my money back", "example", "payBack"),
        Phrase("billing_agent", "billing", "name"),
        Phrase("billing_agent", "pay back", "capability", "payBack"),
        Phrase("billing_agent", "Gives money back.", "capability", "payBack"),
        Phrase("billing_agent", "Invoices and refunds.", "description"),
    ]


def test_the_default_and_agents_with_others_below_count_by_examples_alone() -> None:
    """A supervisor that routes every request must not draw every request (C7, C19)."""
    parents = {"front desk": None, "travel": "front desk", "flights": "travel", "general": "front desk"}
    said = "Answers every question about orders, refunds and flights."
    tree = AgentTree(
        AgentCard(name=name, parent=parent, description=said, examples=("hello there",)) for name, parent in parents.items()
    )
    assert [phrase.kind for phrase in of(tree, "front desk")] == ["example"]
    assert [phrase.kind for phrase in of(tree, "travel")] == ["example"]
    assert len(of(tree, "flights")) > 2
    assert len(of(tree, "general")) > 2
    assert [phrase.kind for phrase in of(tree, "general", default="general")] == ["example"]
    assert of(tree, "front desk", default="nobody") == of(tree, "front desk")


def test_a_composite_counts_by_its_own_words_because_those_below_cannot_be_chosen() -> None:
    """C19"""
    cards = [
        AgentCard(name="root"),
        AgentCard(name="report", parent="root", kind="sequential", description="Writes a report."),
        AgentCard(name="draft", parent="report"),
    ]
    assert [phrase.text for phrase in of(AgentTree(cards), "report")] == ["report", "Writes a report."]


def test_texts_count_once_for_an_agent_in_their_normal_form() -> None:
    """C2"""
    card = AgentCard(
        name="weather", parent="root", examples=("Weather?", "  weather?? ", "", " \u200b ", "weath\u200ber?", "x" * 9_000)
    )
    texts = [phrase.text for phrase in of(AgentTree([AgentCard(name="root"), card]), "weather")]
    assert texts == ["Weather?", "x" * 2_000, "weather"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("track_order", "track order"),
        ("trackMyOrder2", "track my order2"),
        ("HTTPServer-status", "HTTP server status"),
        ("Billing Agent", "billing"),
        ("Restaurants_1", "restaurants"),
        ("agent", "agent"),
        ("agent_7", "agent 7"),
        ("Größe ändern", "größe ändern"),
        ("天気", "天気"),
        ("FAQ", "FAQ"),
        ("___", ""),
    ],
)
def test_names_as_words(name: str, words: str) -> None:
    assert words_of(name) == words


def test_a_long_description_is_cut_into_what_the_agent_can_do() -> None:
    found = capabilities_of(
        "# Returns\nHandles returns, damaged items and missing parcels. Checks the status of a refund; arranges a pickup.\n"
        "- prints **shipping labels**\nDoes not handle invoices. Never use it for complaints."
    )
    assert "damaged items" in found
    assert "missing parcels" in found
    assert "arranges a pickup" in found
    assert "prints shipping labels" in found
    assert not any("invoices" in text or "complaints" in text for text in found)


def test_an_abbreviation_cuts_no_description() -> None:
    """C7"""
    found = capabilities_of(
        "Books visits with Dr. Smith or a nurse, e.g. at 5 p.m. on Friday. Sends the bill of Acme Inc. by post"
    )
    assert found[0] == "Books visits with Dr. Smith or a nurse, e.g. at 5 p.m. on Friday"
    assert "Sends the bill of Acme Inc. by post" in found
    assert "Books visits with Dr" not in found
    assert capabilities_of("Asks Dr. Smith about you.") == []


def test_a_short_description_stays_whole() -> None:
    assert capabilities_of("Invoices and refunds.") == []


def test_a_description_without_end_gives_few_phrases() -> None:
    assert len(capabilities_of("It does this thing now. " * 3 + " ".join(f"Makes cake number {n}." for n in range(200)))) == 16


def test_an_empty_tree_of_words_gives_nothing() -> None:
    assert phrases_of(AgentTree([AgentCard(name="root", description="Everything.")])) == ()


def test_learned_examples_are_compared_and_marked() -> None:
    """H4: a text that is also an ordinary example may be quoted."""
    learned = (LearnedExample(text="it is late", user="ada"), LearnedExample(text="Track it", user="ben"))
    card = AgentCard(name="orders", parent="root", examples=("track it",), learned=learned)
    found = [phrase for phrase in of(AgentTree([AgentCard(name="root"), card]), "orders") if phrase.kind == "example"]
    assert found == [Phrase("orders", "track it"), Phrase("orders", "it is late", private=True)]
