"""With the encoder and the model that are shipped: it is they who decide."""

from collections.abc import Iterator
from functools import cache

import pytest

from turnwise.facts.cards import AgentCard, Pattern
from turnwise.facts.content import text_content
from turnwise.facts.events import Await
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Verdict
from turnwise.facts.sessions import RECENT_MESSAGES, AuthorMark, Exchange, Head, OpenInvocation
from turnwise.facts.tree import AgentTree
from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.contextual.selector import LEAVE, RETURN, ROUTE, SMALLTALK, STAY, Contextual
from turnwise.selection.meaning import Meaning
from turnwise.selection.patterns import pattern_index
from turnwise.testing import selector_suite
from turnwise.testing.fake_encoder import BagOfWordsEncoder
from turnwise.testing.selector_suite import ODD_TEXTS, request_for


def agent(name: str, *examples: str, **more: object) -> AgentCard:
    return AgentCard(name=name, parent="front", examples=examples, **more)  # type: ignore[arg-type]


@cache
def tree() -> AgentTree:
    pattern = (Pattern(regex=r"\border\b", confidence=0.8),)
    return AgentTree(
        [
            AgentCard(name="front", description="Welcomes everybody."),
            agent(
                "orders", "Where is my order?", "My parcel has not arrived", "Change the delivery address", "Cancel my order",
                "I never got my package", "track my shipment", patterns=pattern,
            ),
            agent(
                "billing", "I was charged twice", "Send me the invoice", "How do I pay by card?", "I want my money back",
                "Why is my bill so high?", "update my credit card", patterns=(Pattern(regex=r"\binvoice\b", confidence=0.8),),
            ),
            agent(
                "tech_support", "The app crashes", "My printer does not work", "I cannot log in", "the screen stays black",
                "my internet is slow", "reset my password",
            ),
            agent(
                "stores", "Where is the nearest store?", "When do you open on Sunday?", "Is there parking at the shop?",
                "what are your opening hours", "do you have a branch in Leeds", "directions to the shop",
            ),
        ]
    )  # fmt: skip


@cache
def selector() -> Contextual:
    return Contextual(Meaning(tree(), OnnxEncoder()), pattern_index(tree()))


def head(active: str | None, reply: str, *recent: tuple[str, str | None], waits: bool = False, **more: object) -> Head:
    spoke = [name for _, name in recent if name] + ([active] if active else [])
    waiting = OpenInvocation(agent=active or "", state="waiting", began=90, last=99, waits=((active or "", Await(id="w")),))
    return Head(
        authors={name: AuthorMark(spoke=place) for place, name in enumerate(spoke, 1)},
        active_agent=active,
        last_reply=reply,
        recent=tuple(Exchange(message=message, agent=name) for message, name in recent[-RECENT_MESSAGES:]),
        turns=len(recent),
        invocations={"i": waiting} if waits else {},
        **more,  # type: ignore[arg-type]
    )


ASKED = head("orders", "Sure, what is your order number?", ("Where is my parcel?", "orders"))


async def decide(text: str, past: Head | None = None, **more: object) -> Verdict:
    context = more.pop("context", MessageContext())
    names = more.pop("eligible", tuple(card.name for card in tree()))
    request = SelectionRequest(text_content(text), tree(), past or Head(), names, context=context)  # type: ignore[arg-type]
    return await selector().select(request)


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("my package never came", "orders"),
        ("you took the money from my card two times", "billing"),
        ("i can't sign in any more", "tech_support"),
        ("are you open on sundays", "stores"),
    ],
)
async def test_a_first_message_is_routed_by_its_meaning(text: str, who: str) -> None:
    """C5, C9"""
    verdict = await decide(text)
    assert (verdict.agent, verdict.method) == (who, ROUTE)
    assert verdict.candidates[0].agent == who
    assert "nearest example" in verdict.reason


@pytest.mark.parametrize(
    "text", ["12345", "it's AB-99812", "jo@example.com", "yes", "no, the other one", "Tuesday at 5 pm", "thanks!"]
)
@pytest.mark.parametrize("waits", [False, True])
async def test_an_answer_stays_with_who_asked(text: str, waits: bool) -> None:
    """C9"""
    past = head("orders", "Sure, what is your order number?", ("Where is my parcel?", "orders"), waits=waits)
    verdict = await decide(text, past)
    assert (verdict.agent, verdict.method) == ("orders", STAY)
    assert verdict.reason.startswith("stays: ")


@pytest.mark.parametrize(
    ("text", "who"),
    [
        ("When do you open on Sunday?", "stores"),
        ("actually, the app crashes all the time", "tech_support"),
        ("also, could you send me the invoice?", "billing"),
    ],
)
async def test_a_new_request_leaves_even_while_an_answer_is_awaited(text: str, who: str) -> None:
    """C9"""
    for waits in (False, True):
        past = head("orders", "Sure, what is your order number?", ("Where is my parcel?", "orders"), waits=waits)
        verdict = await decide(text, past)
        assert (verdict.agent, verdict.method) == (who, LEAVE)
        assert verdict.reason.startswith("leaves orders: ")


async def test_back_to_what_was_before() -> None:
    """C9, C17"""
    past = head("stores", "We open at ten.", ("Where is my parcel?", "orders"), ("When do you open on Sunday?", "stores"))
    verdict = await decide("now back to my parcel", past)
    assert (verdict.agent, verdict.method) == ("orders", RETURN)
    assert verdict.reason.startswith("returns to orders: ")


@pytest.mark.parametrize("text", ["let me talk to billing", "can you transfer me to billing?", "billing please"])
async def test_who_is_asked_for_by_name(text: str) -> None:
    """C9"""
    verdict = await decide(text, ASKED)
    assert (verdict.agent, verdict.method) == ("billing", LEAVE)


async def test_small_talk_stays_with_the_active_agent() -> None:
    """C8, C9"""
    assert (await decide("haha, you are funny", ASKED)).agent == "orders"


async def test_small_talk_at_the_start_goes_to_the_general_agent() -> None:
    """C6, C8"""
    verdict = await decide("hello there, how are you?")
    assert (verdict.agent, verdict.method) == ("front", SMALLTALK)


async def test_an_answer_is_not_stolen_by_anothers_pattern() -> None:
    """C9"""
    past = head("billing", "Shall I send it by e-mail or by post?", ("I was charged twice", "billing"))
    assert (await decide("by post, with my order please", past)).agent == "billing"


async def test_it_recovers_from_a_wrong_choice() -> None:
    """C9: the last reply and the messages before say who it should have been."""
    past = head(
        "stores", "Which invoice was charged twice, and when did you pay by card?",
        ("hello, something is wrong with my money", "stores"), ("i was charged two times for it", "stores"),
    )  # fmt: skip
    assert (await decide("i want my money back for the invoice that was charged twice", past)).agent == "billing"


async def test_nobody_is_taken_for_what_nobody_does() -> None:
    """C7: the candidates are listed all the same."""
    verdict = await decide("what is the square root of eighty one multiplied by pi")
    assert verdict.outcome == "abstained"
    assert verdict.novelty is not None
    assert verdict.novelty > 0.5
    assert len(verdict.candidates) >= 4


@pytest.mark.parametrize("text", ["🙂🙂🙂", "?!", "\u200b"])
async def test_what_cannot_be_read_stays_or_abstains(text: str) -> None:
    """C9: stable and explained."""
    stays = await decide(text, ASKED)
    assert (stays.agent, stays.method) == ("orders", STAY)
    assert "no words that can be read" in stays.reason
    assert (await decide(text)).outcome == "abstained"


async def test_two_requests_are_both_reported() -> None:
    """C9"""
    verdict = await decide("Send me the invoice for May. Also, when do you open on Sunday?")
    assert {verdict.agent, *verdict.also} == {"billing", "stores"}
    assert "also holds a request for" in verdict.reason


async def test_one_request_has_no_second() -> None:
    """C9"""
    assert (await decide("Where is my order? I never got my package.")).also == ()


async def test_who_is_gone_or_may_not_go_on_is_passed_over() -> None:
    """A4, A12, C9"""
    gone = await decide("12345", head("ghost", "What is your order number?", ("Where is my parcel?", "ghost")))
    assert [each.rule for each in gone.passed_over] == ["unknown"]
    never = AgentTree([card.replace(resume="never") if card.name == "orders" else card for card in tree()])
    request = SelectionRequest(text_content("yes"), never, ASKED, tuple(card.name for card in never))
    verdict = await Contextual(Meaning(never, OnnxEncoder()), pattern_index(never)).select(request)
    assert verdict.method != STAY
    assert [each.rule for each in verdict.passed_over] == ["not_resumable"]


async def test_only_the_eligible_are_chosen() -> None:
    """C20"""
    verdict = await decide("Where is my order?", ASKED, eligible=("billing", "stores"))
    assert verdict.agent in ("billing", "stores", None)
    assert {each.agent for each in verdict.candidates} <= {"billing", "stores"}
    assert (await decide("Where is my order?", eligible=())).outcome == "abstained"


@pytest.mark.parametrize("text", ["yes", "12345", "what do you need", "1 2 3"])
async def test_what_names_nothing_and_opens_a_conversation_is_for_nobody(text: str) -> None:
    """C9: unless somebody has examples like it, or helped before, or the user was asked to choose."""
    verdict = await decide(text)
    assert (verdict.outcome, verdict.agent) == ("abstained", None)
    assert verdict.reason == EMPTY
    assert (verdict.novelty or 0.0) >= 0.9
    sure = Contextual(Meaning(tree(), OnnxEncoder()), pattern_index(tree()), nobody=0.95)
    alone = SelectionRequest(text_content(text), tree(), Head(), tuple(card.name for card in tree()))
    assert (await sure.select(alone)).reason == EMPTY
    helped = await decide(text, context=MessageContext(previous_agents=("orders",)))
    offered = await decide(text, Head(offered=("orders", "billing")))
    assert EMPTY not in (helped.reason, offered.reason)
    likewise = AgentTree([AgentCard(name="front"), agent("likewise", text, "and more of it"), agent("other", "pay my bill")])
    request = SelectionRequest(text_content(text), likewise, Head(), ("front", "likewise", "other"))
    assert (await Contextual(Meaning(likewise, OnnxEncoder()), pattern_index(likewise)).select(request)).agent == "likewise"


EMPTY = "No word of the message says what it is about, and nobody has the conversation."


async def test_small_talk_is_not_called_strange() -> None:
    """C8: the novelty on record is that of a request."""
    verdict = await decide("ok")
    assert (verdict.agent, verdict.method) == ("front", SMALLTALK)
    assert verdict.novelty is not None
    assert verdict.novelty < 0.5


async def test_previous_agents_are_named_when_they_decided() -> None:
    """C10: whoever reads the reason sees what tipped the scales; where they changed nothing it does not name them."""
    decided, same = 0, 0
    texts = [
        "yes",
        "hello again",
        "I have a question about my card",
        "what about the thing",
        "where is it",
        "can I change the address",
    ]
    texts += [
        "Where is my order?",
        "Send me the invoice",
        "I cannot log in",
        "do you have a branch in Leeds",
        "and the other one",
        "I have another question",
        "I am still waiting",
        "how much is it",
    ]
    for text in texts:
        alone = await decide(text)
        for name in ("orders", "billing", "tech_support", "stores"):
            helped = await decide(text, context=MessageContext(previous_agents=(name,)))
            tipped = helped.outcome == "chosen" and helped.agent == name and alone.agent != name
            assert ("previous_agents" in helped.reason) is tipped, (text, name, helped.reason)
            decided, same = decided + tipped, same + (helped.agent == alone.agent)
            if tipped:
                assert f"otherwise it would be {alone.agent or 'nobody'}." in helped.reason
    assert decided >= 3
    assert same >= 3


async def test_previous_agents_weigh() -> None:
    """C17"""
    plain = await decide("I have a question about my card")
    helped = await decide("I have a question about my card", context=MessageContext(previous_agents=("stores",)))

    def share(verdict: Verdict) -> float:
        return next(each.score for each in verdict.candidates if each.agent == "stores")

    assert share(helped) >= share(plain)


def odd() -> Iterator[str]:
    yield from ODD_TEXTS
    yield "order invoice " * 2_000
    yield "WHERE IS MY ORDER??!!"
    yield "def main():\n    return {'order': [1, 2]}"
    yield "<next>@billing</next>"


@pytest.mark.parametrize("text", list(odd()), ids=range(len(list(odd()))))
async def test_any_text_gets_the_same_explained_decision_again(text: str) -> None:
    """E9"""
    for past in (Head(), ASKED):
        first, second = await decide(text, past), await decide(text, past)
        assert first == second
        assert first.reason


@pytest.mark.parametrize("case", selector_suite.CASES, ids=lambda case: case.__name__)
async def test_it_does_what_every_selector_must(case: selector_suite.Case) -> None:
    """C20, E9"""
    encoder = BagOfWordsEncoder()
    await case(lambda tree: Contextual(Meaning(tree, encoder), pattern_index(tree)))


async def test_answers_are_not_weighed() -> None:
    assert (await selector().select(request_for(tree(), "go", occasion="answer"))).outcome == "abstained"


async def test_a_near_tie_is_reported_when_a_margin_is_set() -> None:
    """E5"""
    wary = Contextual(Meaning(tree(), OnnxEncoder()), pattern_index(tree()), margin=1.0)
    request = SelectionRequest(text_content("My parcel has not arrived"), tree(), Head(), tuple(card.name for card in tree()))
    verdict = await wary.select(request)
    assert verdict.outcome == "abstained"
    assert "too close to tell" in verdict.reason
    assert verdict.candidates[0].agent == "orders"
