"""The help desk on orders: questions that are open, returns, cancellations, charges."""

from helpdesk_play import STAYS, OpenDesk, speakers

from turnwise.runner import Result


def transfers(result: Result) -> list[tuple[str, str]]:
    return [(event.author, event.actions.transfer_to) for event in result.events if event.actions.transfer_to]


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


async def test_a_returning_customer_need_not_name_the_order_again(opened: OpenDesk) -> None:
    """C14: in another conversation, after a restart. Another order that is named counts instead, and cancelling asks."""
    async with opened() as desk:
        await desk.say("I want to return order A-10398", session="monday")
        assert "Order A-10412" in (await desk.say("Where is order A-10412?", session="tuesday")).text
        await desk.say("Where is order A-99999?", session="wednesday")
    async with opened() as desk:
        again = await desk.say("Has my parcel been shipped already?", session="friday")
        assert speakers(again) == ["orders"]
        assert "Order A-10412" in again.text
        assert "Which order is it?" in (await desk.say("Please cancel what I ordered", session="saturday")).text
        news = await desk.say("how is it going with A-10398", session="sunday")
        assert news.events[0].actions.selection is not None
        assert news.events[0].actions.selection.agent == "returns"
        assert "noted" in news.events[0].actions.selection.reason


async def test_another_customer_is_asked(opened: OpenDesk) -> None:
    async with opened() as desk:
        await desk.say("Where is order A-10412?", session="tuesday")
        other = await (await desk.runner.start("Has my parcel been shipped already?", user="marco", session="friday")).result()
        assert "Which order is it?" in other.text
