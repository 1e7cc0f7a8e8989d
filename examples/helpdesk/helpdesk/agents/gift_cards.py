"""What is left on a gift card."""

from helpdesk import clock, reading
from helpdesk.asking import not_twice
from helpdesk.patterns import plain
from helpdesk.shop import billing as shop
from helpdesk.wording import long_date, money, on
from turnwise import AgentContext, agent


@agent(
    description="Tells what is left on a gift card and until when it is good.",
    patterns=plain(r"\bGC[- ]?\d{4}[- ]?\d{4}\b", means="the number of a gift card"),
    examples=[
        "How much money is still on my gift card?",
        "Is my gift card expired?",
        "Until when can I use the voucher?",
        "I got a gift certificate, what is it worth?",
        "Check the balance of a gift card.",
        "Can I buy a gift card for a friend?",
    ],
    tags=["money"],
)
async def gift_cards(message: str, context: AgentContext) -> str | None:
    return await not_twice(_answer(message, context), message, context)


def _answer(message: str, context: AgentContext) -> str:
    number = reading.gift_card(message) or context.state.get("last_gift_card")
    if number is None:
        return "We have gift cards of $10 to $500. To see what is left on one, tell me its number, like GC-1234-5678."
    card = shop.gift_card(number)
    if card is None:
        return f"I find no gift card {number}. The number is on its back: GC and two times four digits."
    context.state["last_gift_card"] = number
    if card.expires_on < clock.today():
        left = f"{money(card.cents)} were left; ask for a person, they can extend it."
        return f"Gift card {number} expired {on(card.expires_on)}. {left}"
    if card.cents == 0:
        return f"Gift card {number} is used up."
    return f"{money(card.cents)} are left on gift card {number}. It is good until {long_date(card.expires_on)}."
