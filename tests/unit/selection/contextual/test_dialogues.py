"""Whole conversations by the shipped encoder and model: each choice has the conversation at the next message (C9)."""

from functools import cache
from typing import NamedTuple

import pytest

from turnwise.facts.content import text_content
from turnwise.facts.selections import Verdict
from turnwise.facts.sessions import RECENT_CHARACTERS, RECENT_MESSAGES, AuthorMark, Exchange, Head
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.contextual.selector import Contextual
from turnwise.selection.meaning import Meaning
from turnwise.selection.patterns import pattern_index

COMPANIES = {
    "shop": {
        "orders": "Where is my order?|Cancel my order|Change the delivery address|My parcel has not arrived|track my shipment",
        "products": "I'm looking for a desk lamp|Do you sell winter boots?|Which laptop has the longest battery?"
        "|Is this jacket available in red?|recommend a gift for my dad",
        "refunds": "I want my money back|Send this back please|How do I return a pair of shoes?|My item arrived broken"
        "|When will I get my refund?",
        "account": "I forgot my password|Change my e-mail address|Delete my account|I can't sign in|update my profile",
    },
    "clinic": {
        "appointments": "Book an appointment with a doctor|I need to see a dentist|Reschedule my visit|Cancel my appointment",
        "prescriptions": "Refill my prescription|Can I get my medication renewed?|what is the dose of my pills",
        "billing": "Why was I billed twice?|How much does a visit cost?|Do you take my insurance?|I want to pay my invoice",
        "lab_results": "Are my blood test results ready?|Send my x-ray to my doctor|What does my cholesterol value mean?",
    },
    "travel": {
        "flights": "Book a flight to Paris|Change my flight|Is my flight on time?|extra baggage|cheapest flight to Rome in May",
        "hotels": "Find me a hotel in Berlin|I need a room for two nights|Does the hotel have a pool?|cancel my hotel room",
        "cars": "Rent a car at the airport|I need an SUV for a week|Where do I pick up the car?",
    },
    "bank": {
        "cards": "My card was stolen|Block my card|I need a new debit card|Why was my card declined?",
        "transfers": "Send money to a friend|Transfer 200 to savings|Set up a standing order|My transfer has not arrived",
        "fraud": "I don't recognise this payment|Somebody used my account|I got a suspicious text message",
    },
    "town": {
        "waste": "When is the garbage collected?|I need a bigger bin|Pick up my old sofa|where do i bring batteries",
        "parking": "I got a parking ticket|Apply for a resident parking permit|where can i park downtown",
        "registry": "I moved and need to register|I lost my ID card|birth certificate|How do I get married here?",
        "taxes": "Pay my property tax|dog tax|When is the tax due?",
        "library": "Is the library open on Sunday?|Renew my books|get a library card",
        "schools": "Enrol my child in school|When do the holidays start?|kindergarten place",
    },
}  # fmt: skip


class Line(NamedTuple):
    """What the user says, who should take it, and what is answered."""

    user: str
    agent: str
    reply: str


DIALOGUES = {
    "short answers stay": (
        "shop",
        Line("where is my package?", "orders", "Could you give me the order number?"),
        Line("88123-A", "orders", "And the e-mail address?"),
        Line("jo.mill@example.com", "orders", "It was sent on Monday. Shall I give you the tracking link?"),
        Line("yes please", "orders", "Here it is. Anything else?"),
        Line("no thanks", "orders", "You're welcome!"),
    ),
    "a plain request leaves, also in the middle of something": (
        "clinic",
        Line("I need to see someone about my knee", "appointments", "Is Thursday at 10 fine?"),
        Line("are my blood test results in yet?", "lab_results", "They will be ready tomorrow."),
        Line("ok. do you take my insurance?", "billing", "Yes, we do."),
        Line("I also need a refill of my blood pressure pills", "prescriptions", "Which ones?"),
        Line("the small white ones", "prescriptions", "Sent to your pharmacy."),
    ),
    "back to what was before": (
        "travel",
        Line("flights from Berlin to Lisbon on 12 June", "flights", "There is one at 9:15 and one at 18:40."),
        Line("the later one", "flights", "For how many persons?"),
        Line("wait, is there a hotel near the center for those days?", "hotels", "Hotel Borges, 95 euros a night."),
        Line("sounds nice, I'll take it", "hotels", "Booked."),
        Line("now back to the flight, we are two persons", "flights", "Booked for two."),
        Line("thank you!", "flights", "Have a good trip."),
    ),
    "somebody is asked for by name": (
        "clinic",
        Line("Can I get my medication renewed?", "prescriptions", "Which one?"),
        Line("let me talk to billing", "billing", "Billing here, how can I help?"),
        Line("you charged me twice for the same visit", "billing", "I'm sorry. Which visit was it?"),
        Line("the one on May 3rd", "billing", "I have refunded it."),
    ),
    "a verb of asking for somebody names nobody": (
        "bank",
        Line("send 50 dollars to Anna", "transfers", "Done."),
        Line("transfer me to fraud", "fraud", "What happened?"),
        Line("somebody used my account", "fraud", "I have blocked it."),
    ),
    "small talk does not leave": (
        "town",
        Line("my old sofa has to go", "waste", "We can come next Wednesday. Is it at the street level?"),
        Line("haha you are funny", "waste", "Thanks! Is it?"),
        Line("yes it is", "waste", "Done."),
        Line("you're very helpful", "waste", "Anything else?"),
        Line("my wife got a parking ticket yesterday", "parking", "What is its number?"),
        Line("P-2231-88", "parking", "The fine is $30."),
    ),
    "shouting and slips": (
        "shop",
        Line("I WANT MY MONEY BACK!!!", "refunds", "For which item?"),
        Line("the ketle from order 5531", "refunds", "I have started the refund."),
        Line("and i forgot my pasword", "account", "Shall I send you a link?"),
        Line("YES", "account", "Done."),
    ),
    "a price in a request is no answer": (
        "shop",
        Line("I can't sign in", "account", "I've sent you a link. Anything else?"),
        Line("I'm looking for a desk lamp under $50", "products", "Nora at $45 or Tilt at $49?"),
        Line("Nora", "products", "White or black?"),
        Line("black, 2 of them", "products", "Added to your basket."),
    ),
    "a long one, of which the beginning is out of sight": (
        "travel",
        Line("I need a flight to Lisbon", "flights", "Gladly. From where?"),
        Line("Hamburg", "flights", "When would you like to leave?"),
        Line("the 14th of June", "flights", "In the morning or in the evening?"),
        Line("morning please", "flights", "How many of you?"),
        Line("two adults and a child", "flights", "How old is the child?"),
        Line("6", "flights", "Window or aisle?"),
        Line("window if you have it", "flights", "With a checked bag?"),
        Line("one bag for all of us", "flights", "That is 412 euros. Whose name is it on?"),
        Line("Petra Lang", "flights", "And your e-mail address?"),
        Line("petra.lang@example.com", "flights", "Booked. The tickets are on their way. Anything else?"),
        Line("yes, we also need a hotel there for 5 nights", "hotels", "In which part of the town?"),
        Line("somewhere central", "hotels", "Hotel Alfama, 120 euros a night?"),
    ),
}  # fmt: skip


@cache
def selector(company: str) -> tuple[AgentTree, Contextual]:
    cards = [
        AgentCard(name=name, parent="front", examples=tuple(texts.split("|"))) for name, texts in COMPANIES[company].items()
    ]
    tree = AgentTree([AgentCard(name="front", description="Welcomes everybody."), *cards])
    return tree, Contextual(Meaning(tree, OnnxEncoder()), pattern_index(tree))


async def decisions(company: str, *lines: Line) -> list[Verdict]:
    tree, contextual = selector(company)
    found: list[Verdict] = []
    spoke: dict[str, AuthorMark] = {}
    head = Head()
    for turn, line in enumerate(lines, 1):
        request = SelectionRequest(text_content(line.user), tree, head, tuple(card.name for card in tree))
        verdict = await contextual.select(request)
        found.append(verdict)
        agent = verdict.agent or "front"
        spoke = spoke | {agent: AuthorMark(spoke=turn)}
        said = Exchange(message=line.user, agent=agent, before=head.last_reply[-RECENT_CHARACTERS:])
        recent = (*head.recent, said)[-RECENT_MESSAGES:]
        head = Head(authors=spoke, active_agent=agent, last_reply=line.reply, recent=recent, turns=turn)
    return found


async def test_a_slip_in_the_only_telling_word_changes_nothing() -> None:
    """C2: the message, the earlier ones, and the names in them."""
    right = await decisions("shop", Line("I forgot my password", "account", "Done."), Line("refunds please", "refunds", ""))
    wrong = await decisions("shop", Line("I forgot my pasword", "account", "Done."), Line("refnds please", "refunds", ""))
    assert [(each.agent, each.confidence) for each in wrong] == [(each.agent, each.confidence) for each in right]
    assert wrong[0].reason == f"{right[0].reason} It reads “pasword” as “password”."


PASTED = (
    "On Monday we were at my sister's, who has moved to the coast, and it rained all day. The children played cards. "
    "Her husband is a carpenter and showed us the new stairs. On Tuesday we walked to the lighthouse and back. "
)


@pytest.mark.parametrize("many", [1, 3, 50])
@pytest.mark.parametrize(
    ("request_in_it", "agent"),
    [("Anyway, I forgot my password.", "account"), ("Do you sell winter boots for children?", "products")],
)
@pytest.mark.parametrize("where", ["first", "last"])
async def test_a_request_is_found_in_a_long_message(many: int, request_in_it: str, agent: str, where: str) -> None:
    """C9: of up to 10,000 characters it is one sentence."""
    story = PASTED * many
    text = f"{request_in_it} {story}" if where == "first" else f"{story}{request_in_it}"
    (verdict,) = await decisions("shop", Line(text, agent, ""))
    assert verdict.candidates[0].agent == agent, verdict


@pytest.mark.parametrize("about", DIALOGUES)
async def test_a_conversation_goes_where_the_user_goes(about: str) -> None:
    """C9, C17"""
    company, *lines = DIALOGUES[about]
    assert isinstance(company, str)
    said = [line for line in lines if isinstance(line, Line)]
    verdicts = await decisions(company, *said)
    assert [(line.user, verdict.agent) for line, verdict in zip(said, verdicts, strict=True)] == [
        (line.user, line.agent) for line in said
    ]
    assert all(verdict.reason for verdict in verdicts)
