"""The help desk of the examples, through its configuration file: who answers, what is said, what is done."""

from typing import NamedTuple

import pytest
from helpdesk_play import DANA, STAYS, Desk, OpenDesk, speakers

from turnwise import MessageContext
from turnwise.facts.content import BlobPart
from turnwise.facts.events import USER

RECEIPT = BlobPart(data=b"%PDF a receipt", mime_type="application/pdf", name="receipt.pdf")


class Turn(NamedTuple):
    """says; who is selected, and by which methods; the last to speak, when it is another; what the answer must hold."""

    says: str
    agent: str
    methods: tuple[str, ...]
    holds: tuple[str, ...]
    answered_by: str = ""


PATTERN = ("strong_intent_match",)
MEANING = ("contextual_route", "contextual_leave", "contextual_return", "smalltalk")
CONVERSATION = (
    Turn("Hello there", "general", MEANING, ("Good morning",)),
    Turn("Where is my order A-10412?", "orders", PATTERN, ("UPS 1Z40412", "Saturday, November 21")),
    Turn("and when will it arrive?", "orders", STAYS, ("Saturday, November 21",)),
    Turn("Do you have a store in Boston?", "stores", MEANING, ("340 Boylston St", "open now", "closed now")),
    Turn("and on Sunday?", "stores", STAYS, ("Back Bay, Boston: on Sunday, November 22 11 am to 6 pm", "closed")),
    Turn("I forgot my password", "password_reset", MEANING, ("Which e-mail address",)),
    Turn("dana@example.com", "password_reset", STAYS, ("six digits",)),
    Turn("wait, where is my package A-10412 now?", "orders", PATTERN, ("1Z40412",)),
    Turn("{code}", "password_reset", PATTERN, ("new one is on its way to dana@example.com",)),
    Turn("I'd like to return something from order A-10398", "returns", PATTERN, ("Glass Kettle", "Wool Blanket")),
    Turn("the kettle", "returns", STAYS, ("Why does the Aurora Glass Kettle go back",)),
    Turn("It arrived with a crack [receipt]", "returns", STAYS, ("by post, or", "store")),
    Turn("wait, where is A-10412 again?", "orders", PATTERN, ("1Z40412",)),
    Turn("now back to my return please", "returns", MEANING, ("By post, or to a store",)),
    Turn("I drop it off in Boston", "returns", STAYS, ("return 1", "broken", "$49.90", "340 Boylston St")),
    Turn("Cancel order A-10420", "orders", PATTERN, ("Tide Earbuds, $59.00", "yes or no")),
    Turn("yes", "orders", STAYS, ("is cancelled", "refund for order A-10420, $59.00"), "billing"),
    Turn("how long will that take?", "billing", STAYS, ("Tuesday, November 24",)),
    Turn("Can I have an invoice for A-10398?", "billing", PATTERN, ("$140.90", "invoice-A-10398.txt")),
    Turn("I'm looking for a desk lamp under $50", "products", PATTERN, ("1. Luma Desk Lamp, $42.00",)),
    Turn("is it in stock in Boston?", "shopping", PATTERN, ("Luma Desk Lamp is in stock", "Boston Seaport")),
    Turn("Thanks a lot!", "shopping", STAYS, ("You are welcome",), "general"),
    Turn("and in New York?", "shopping", (*MEANING, *STAYS), ("Luma Desk Lamp is",)),
    Turn("I want to talk to a person", "supervisor", PATTERN, ("Case 1 is open", DANA)),
)


async def test_the_whole_conversation(opened: OpenDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A2, A12, A36, C4, C9, E1: each message to the right agent, on record with its method, and what it did is done."""
    monkeypatch.setenv("HELPDESK_NOW", "2026-11-19T09:30")  # Back Bay is open, Seaport is not yet
    async with opened() as desk:
        for turn in CONVERSATION:
            says = turn.says.replace("{code}", desk.code() if "{code}" in turn.says else "")
            result = await desk.say(says.removesuffix(" [receipt]"), file=RECEIPT if "[receipt]" in says else None)
            assert result.selection is not None
            assert result.selection.agent == turn.agent, (turn, result.selection)
            assert result.selection.method in turn.methods, (turn, result.selection)
            assert result.selection.reason
            assert speakers(result)[-1] == (turn.answered_by or turn.agent), turn
            for words in turn.holds:
                assert words in result.text, turn
        await _assert_done(desk)


async def _assert_done(desk: Desk) -> None:
    """What the conversation must have left in the shop, among the artifacts and in the log."""
    ((receipt,),) = desk.rows("SELECT receipt FROM returns WHERE order_id = 'A-10398' AND line = 1 AND way = 'store'")
    assert desk.rows("SELECT status FROM orders WHERE id = 'A-10420'") == [("cancelled",)]
    assert desk.rows("SELECT cents, status FROM refunds WHERE order_id = 'A-10420'") == [(5900, "requested")]
    assert desk.rows(f"SELECT must_change FROM accounts WHERE email = '{DANA}'") == [(1,)]
    assert desk.rows("SELECT email FROM cases") == [(DANA,)]
    key = desk.runner.key("dana", "s")
    assert desk.runner.artifacts is not None
    artifact = await desk.runner.artifacts.load(key, receipt)
    assert artifact is not None
    assert artifact.data == RECEIPT.data
    invoice = await desk.runner.artifacts.load(key, "invoice-A-10398.txt")
    assert invoice is not None
    assert "$140.90" in invoice.data.decode()
    events = await desk.runner.store.events(key)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert sum(1 for event in events if event.author == USER) == len(CONVERSATION)


async def test_what_nobody_claims_ends_at_the_general_agent(opened: OpenDesk) -> None:
    """A5, A12, A36, C9: whoever gets it passes it on; small talk is never resumed, the one who was busy is."""
    async with opened() as desk:
        first = await desk.say("tell me a joke about cats")
        assert speakers(first) == ["general"]
        await desk.say("Where is my order A-10412?")
        aside = await desk.say("tell me a joke")
        assert speakers(aside) == ["general"]
        back = await desk.say("when does it arrive?")
        assert back.selection is not None
        assert back.selection.agent == "orders"


async def test_in_doubt_the_user_is_asked(opened: OpenDesk) -> None:
    """E5: and the one who is chosen gets what was asked."""
    async with opened() as desk:
        asked = await desk.say("this thing is broken")
        assert asked.selection is not None
        assert (asked.selection.outcome, asked.selection.agent) == ("clarify", "supervisor")
        assert "Returns – Takes items back" in asked.text
        chosen = await desk.say("the warranty one")
        assert chosen.selection is not None
        assert (chosen.selection.agent, chosen.selection.method) == ("warranty", "clarified")
        events = await desk.runner.store.events(desk.runner.key("dana", "s"), invocation_id=chosen.invocation_id)
        told = next(event.actions.brief for event in events if event.author == USER)
        assert told is not None
        assert told.text == "this thing is broken"


async def test_a_case_for_people(opened: OpenDesk) -> None:
    async with opened() as desk:
        assert "Under which e-mail address" in (await desk.say("give me a human")).text
        assert "Case 1 is open" in (await desk.say("tom@example.com")).text
        assert "You are the next" in (await desk.say("when is it my turn?")).text
        assert "Case 1 is open already" in (await desk.say("I want to talk to a person")).text
        assert desk.rows("SELECT email, topic FROM cases") == [("tom@example.com", "give me a human")]


async def test_the_caller_may_vouch_for_the_address(opened: OpenDesk) -> None:
    """A43: what the caller knows of the user is in the context an agent gets."""
    async with opened() as desk:
        known = MessageContext(attributes={"email": "marco@example.com"})
        result = await desk.say("how many points do I have?", context=known)
        assert "Marco Silva, you have 310 points" in result.text
        other = await desk.say("and the points of dana@example.com?", context=known)
        assert "Marco Silva" in other.text


async def test_what_was_learned_is_known_in_the_users_next_session(opened: OpenDesk) -> None:
    """A24: `user:` state is shared by a user's sessions."""
    async with opened() as desk:
        await desk.say("show me my orders")
        assert "A-10420" in (await desk.say(DANA)).text
        other = await desk.say("how many points do I have?", session="another")
        assert "Dana Whitfield" in other.text


async def test_a_move_is_read_and_confirmed(opened: OpenDesk) -> None:
    async with opened() as desk:
        await desk.say("I have moved", context=MessageContext(attributes={"email": DANA}))
        assert "could not read" in (await desk.say("to the sea")).text
        assert "12 Oak St, Salem, MA 01970. Is that right?" in (await desk.say("12 Oak St, Salem MA 01970")).text
        assert "Done." in (await desk.say("yes")).text
        assert desk.rows(f"SELECT street, zip FROM accounts WHERE email = '{DANA}'") == [("12 Oak St", "01970")]


async def test_products_and_their_follow_ups(opened: OpenDesk) -> None:
    """A19: the answer is streamed in pieces that are not stored."""
    async with opened() as desk:
        invocation = await desk.runner.start("do you sell headphones?", user="dana", session="s")
        pieces = [event.text async for event in invocation.events() if event.partial]
        result = await invocation.result()
        assert len(pieces) == 2
        assert "".join(pieces) == result.text
        assert "24 months of warranty" in (await desk.say("tell me more about the over-ear ones")).text
        where = await desk.say("is it in stock?")
        assert "do you want the Tide Over-Ear Headphones" in where.text
        assert "Tide Over-Ear Headphones is" in (await desk.say("in New York")).text
        assert "Tide Over-Ear Headphones is" in (await desk.say("and in Boston?")).text
        assert "at most $20.00" in (await desk.say("I'm looking for headphones under $20")).text


async def test_stores_by_zip_code_and_gift_cards(opened: OpenDesk) -> None:
    async with opened() as desk:
        assert "Hartford, 201 Main St" in (await desk.say("06103")).text, "supervisor → shopping → stores"
        assert "Hartford, 201 Main St" in (await desk.say("nearest store to 06105")).text
        assert "no store in that region" in (await desk.say("is there a store near 80202?")).text
        assert "$50.00 are left" in (await desk.say("gift card GC-1001-4471")).text
        assert "find no gift card" in (await desk.say("and GC-9999-0000?")).text


async def test_two_questions_in_a_row_do_not_get_the_same_answer(opened: OpenDesk) -> None:
    """Neither where nothing fits, nor where the desk knows no more, nor where a reply is of no use."""
    async with opened() as desk:
        for pair in (
            ("do you sell bicycles?", "do you sell surfboards?"),
            ("where is my order A-10412?", "is it insured?"),
            ("what is the state of my order A-10412?", "and does it come in a box?"),
        ):
            first, second = [(await desk.say(message, session=pair[0])).text for message in pair]
            assert first
            assert second
            assert first != second, pair
        await desk.say("how long do refunds take?", session="money")
        useless = {(await desk.say(message, session="money")).text for message in ("I like cats", "and dogs")}
        assert len(useless) == 2
