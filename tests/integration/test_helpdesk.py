"""The help desk of the examples, through its configuration file: who answers, what is said, what is done."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from turnwise import Content, MessageContext, Runner
from turnwise.assemble import load_app
from turnwise.facts.content import BlobPart, TextPart
from turnwise.facts.events import USER
from turnwise.runner import Result

HELPDESK = Path(__file__).parents[2] / "examples" / "helpdesk"
DANA = "dana@example.com"
RECEIPT = BlobPart(data=b"%PDF a receipt", mime_type="application/pdf", name="receipt.pdf")


class Desk:
    """One customer's conversation with the desk, and the shop's database behind it."""

    def __init__(self, runner: Runner, shop: Path) -> None:
        self.runner = runner
        self._shop = shop

    async def say(self, text: str, *, file: BlobPart | None = None, session: str = "s", **options: Any) -> Result:
        parts = (TextPart(text=text), file) if file else (TextPart(text=text),)
        invocation = await self.runner.start(Content(role="user", parts=parts), user="dana", session=session, **options)
        return await invocation.result()

    def rows(self, question: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self._shop)) as connection:
            return connection.execute(question).fetchall()

    def code(self, email: str = DANA) -> str:
        """The code in the newest mail to that address."""
        ((body,),) = self.rows(f"SELECT body FROM outbox WHERE recipient = '{email}' ORDER BY id DESC LIMIT 1")
        return "".join(letter for letter in str(body).split(". ")[0] if letter.isdigit())


OpenDesk = Callable[[], AbstractAsyncContextManager[Desk]]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OpenDesk:
    """Opens the desk over this test's folder; a second time it is the desk after a restart."""
    monkeypatch.setenv("HELPDESK_DB", str(tmp_path / "shop.db"))
    monkeypatch.setenv("HELPDESK_SESSIONS", str(tmp_path / "sessions.db"))
    monkeypatch.setenv("HELPDESK_ARTIFACTS", str(tmp_path / "artifacts"))
    monkeypatch.setenv("HELPDESK_NOW", "2026-11-19T10:00")

    @asynccontextmanager
    async def open_desk() -> AsyncIterator[Desk]:
        app = load_app(HELPDESK / "turnwise.yaml")
        try:
            yield Desk(app.runner, tmp_path / "shop.db")
        finally:
            await app.runner.close()

    return open_desk


def speakers(result: Result) -> list[str]:
    """Who spoke to the user, in order, each once."""
    return list(dict.fromkeys(e.author for e in result.events if e.author != USER and e.text and not e.is_private))


def transfers(result: Result) -> list[tuple[str, str]]:
    return [(event.author, event.actions.transfer_to) for event in result.events if event.actions.transfer_to]


class Turn(NamedTuple):
    """says; who is selected, and by which methods; the last to speak, when it is another; what the answer must hold."""

    says: str
    agent: str
    methods: tuple[str, ...]
    holds: tuple[str, ...]
    answered_by: str = ""


PATTERN = ("strong_intent_match",)
STAYS = ("contextual_stay", "resume")
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


async def _reset_to_the_code(desk: Desk) -> str:
    await desk.say("I forgot my password")
    result = await desk.say(DANA)
    assert "code" in result.text
    return desk.code()


def _wrong(code: str, by: int = 1) -> str:
    return f"{(int(code) + by) % 1_000_000:06d}"


async def test_three_wrong_codes_end_the_reset(opened: OpenDesk) -> None:
    """A42: the invocation waits after each of two wrong codes, and ends with the third; nothing is changed."""
    async with opened() as desk:
        code = await _reset_to_the_code(desk)
        first, second = await desk.say(_wrong(code)), await desk.say(_wrong(code, 2))
        assert (first.waiting, second.waiting) == (True, True)
        third = await desk.say(_wrong(code, 3))
        assert not third.waiting
        assert "That code is over" in third.text
        late = await desk.say(code)
        assert "Which e-mail address" in late.text
        assert desk.rows(f"SELECT must_change FROM accounts WHERE email = '{DANA}'") == [(0,)]


async def test_wrong_codes_are_counted_across_leaving_and_a_restart(opened: OpenDesk) -> None:
    """A42: another process goes on with the wait, and leaving gives no new tries."""
    async with opened() as desk:
        code = await _reset_to_the_code(desk)
        await desk.say(_wrong(code))
        aside = await desk.say("What are your opening hours in Boston?")
        assert speakers(aside) == ["stores"]
    async with opened() as desk:
        again = await desk.say(_wrong(code, 2))
        assert speakers(again) == ["password_reset"]
        assert "not the code I sent" in again.text
        assert desk.rows("SELECT wrong, state FROM resets") == [(2, "open")]
        right = await desk.say(f"the code is {code}")
        assert "That is right" in right.text
        assert desk.rows("SELECT count(*) FROM resets") == [(1,)], "run again from its start, it must not send a second code"


async def test_a_reset_that_is_given_up(opened: OpenDesk) -> None:
    async with opened() as desk:
        await _reset_to_the_code(desk)
        result = await desk.say("never mind")
        assert not result.waiting
        assert "stays as it was" in result.text


async def test_another_address_and_a_new_code(opened: OpenDesk) -> None:
    """An address without an account sounds the same as one that has one."""
    async with opened() as desk:
        await desk.say("I can't log in")
        nobody = await desk.say("nobody@example.com")
        dana = await desk.say(DANA)
        assert nobody.text.replace("nobody@", "dana@") == dana.text
        await desk.say("no mail, send it again please")
        assert desk.rows("SELECT count(*) FROM outbox") == [(2,)]
        result = await desk.say(desk.code())
        assert "That is right" in result.text


async def test_no_code_and_no_password_is_in_the_log(opened: OpenDesk, tmp_path: Path) -> None:
    """The log keeps what people say; secrets come by mail. The code that the user typed is the only one, and is used up."""
    async with opened() as desk:
        code = await _reset_to_the_code(desk)
        await desk.say(code)
        ((mail,),) = desk.rows("SELECT body FROM outbox ORDER BY id DESC LIMIT 1")
        password = str(mail).split()[3]
        events = await desk.runner.store.events(desk.runner.key("dana", "s"), hidden=True)
    assert [event.author for event in events if code in event.model_dump_json()] == [USER]
    assert not any(password in event.model_dump_json() for event in events)


async def test_unknown_order_gets_a_helpful_answer(opened: OpenDesk) -> None:
    """The reply may be an address; the orders it shows can be chosen by number."""
    async with opened() as desk:
        unknown = await desk.say("Where is order A-99999?")
        assert "I find no order A-99999" in unknown.text
        assert "five digits" in unknown.text
        shown = await desk.say("I ordered as Dana@Example.com")
        assert "2. A-10412" in shown.text
        chosen = await desk.say("the second one")
        assert "Order A-10412 left" in chosen.text


async def test_three_useless_replies_end_the_question(opened: OpenDesk) -> None:
    async with opened() as desk:
        await desk.say("where is my order")
        results = [await desk.say(reply) for reply in ("hm", "A-00000", "what?")]
        assert [result.waiting for result in results] == [True, True, False]


async def test_a_new_request_to_the_agent_that_asked_is_not_taken_for_its_reply(opened: OpenDesk) -> None:
    """A42: the message continues the wait of the same agent, who begins anew."""
    async with opened() as desk:
        asked = await desk.say("I want to return A-10391")
        assert "Frying Pan" in asked.text
        other = await desk.say("I want to return order A-10398")
        assert "Glass Kettle" in other.text
        assert "Frying Pan" not in other.text


async def test_a_late_return_becomes_a_warranty_claim(opened: OpenDesk) -> None:
    """A36, A39: the returns agent hands the floor to its sibling, which gets the case with it, and keeps the floor."""
    async with opened() as desk:
        await desk.say("I want to return A-10391")
        await desk.say("the headphones")
        result = await desk.say("one side stopped working")
        assert transfers(result) == [("returns", "warranty")]
        assert "The 30 days" in result.text
        assert "Claim 1 is open for the Tide Kids Headphones" in result.text
        assert desk.rows("SELECT order_id, line, fault FROM claims") == [("A-10391", 2, "one side stopped working")]
        assert desk.rows("SELECT count(*) FROM returns") == [(0,)]
        follow_up = await desk.say("and the pan?")
        assert speakers(follow_up) == ["warranty"]
        assert "Stone Frying Pan" in follow_up.text


async def test_a_late_return_without_a_fault_is_refused(opened: OpenDesk) -> None:
    async with opened() as desk:
        result = await desk.say("I want to return A-10392, I don't need it")
        assert "The 30 days for the Northlight Tablet 10 were over" in result.text
        assert transfers(result) == []


async def test_what_is_not_delivered_cannot_go_back(opened: OpenDesk) -> None:
    async with opened() as desk:
        assert "it is shipped" in (await desk.say("I want to return order A-10412")).text
        assert "say so and I cancel it" in (await desk.say("I want to return order A-10420")).text


async def test_a_return_by_post_and_the_same_again(opened: OpenDesk) -> None:
    """An item goes back once; what else is in the order can follow without saying the order again."""
    async with opened() as desk:
        await desk.say("I'd like to return the charger from order A-10398, I don't need it")
        result = await desk.say("by post please")
        assert "return 1 for the Volt USB-C Charger, reason: changed mind" in result.text
        assert "The label comes by mail; please send it by December 8, 2026." in result.text
        again = await desk.say("I want to return the charger of A-10398")
        assert "on its way back already: return 1" in again.text
        more = await desk.say("and the blanket is too big")
        assert "How shall it come back" in more.text
        assert "announced today" in (await desk.say("what about my return?")).text


async def test_hand_over_to_billing_and_the_follow_up(opened: OpenDesk) -> None:
    """A36: a refund question in the middle of an order's goes to billing, which the follow-up then finds."""
    async with opened() as desk:
        await desk.say("Where is order A-10413?")
        result = await desk.say("and my money?")
        assert result.selection is not None
        assert result.selection.agent == "orders"
        assert transfers(result) == [("orders", "billing")]
        assert "$89.00" in result.text
        assert "Saturday, November 21" in result.text
        follow_up = await desk.say("to which card does it go?")
        assert follow_up.selection is not None
        assert follow_up.selection.agent == "billing"
        assert follow_up.selection.method in STAYS
        assert "Visa ending 8008" in follow_up.text


async def test_cancelling_is_asked_and_may_be_denied(opened: OpenDesk) -> None:
    async with opened() as desk:
        await desk.say("cancel order A-10420")
        assert "stays as it is" in (await desk.say("no")).text
        assert "cannot be cancelled: it is shipped" in (await desk.say("cancel order A-10412")).text


async def test_double_charge(opened: OpenDesk) -> None:
    async with opened() as desk:
        await desk.say("You charged me twice!")
        assert "A-10416 and A-10417 have the same items" in (await desk.say("A-10416")).text


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
        asked = await desk.say("it is broken")
        assert asked.selection is not None
        assert (asked.selection.outcome, asked.selection.agent) == ("clarify", "supervisor")
        assert "Returns – Takes items back" in asked.text
        chosen = await desk.say("the warranty one")
        assert chosen.selection is not None
        assert (chosen.selection.agent, chosen.selection.method) == ("warranty", "clarified")
        events = await desk.runner.store.events(desk.runner.key("dana", "s"), invocation_id=chosen.invocation_id)
        told = next(event.actions.brief for event in events if event.author == USER)
        assert told is not None
        assert told.text == "it is broken"


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
