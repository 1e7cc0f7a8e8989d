"""Money for models: refunds, what was charged, invoices, gift cards."""

from typing import Annotated, Any

from pydantic import Field

from helpdesk import invoice
from helpdesk.shop import billing as shop, orders
from helpdesk.tools.orders import Number
from helpdesk.wording import money
from turnwise import AgentContext
from turnwise.errors import ToolFailed


def refunds(order: Number) -> list[dict[str, Any]]:
    """Tells the refunds of an order: how much, how far, and when the money is expected."""
    return [{**refund._asdict(), "cents": money(refund.cents)} for refund in shop.refunds(order)]


def same_purchases(order: Number) -> list[str]:
    """Lists other orders of the same day with the same items: what looks like a double charge."""
    return shop.same_purchases(order)


async def save_invoice(order: Number, context: AgentContext) -> str:
    """Saves the invoice of an order that has shipped among the customer's files."""
    found = orders.order(order)
    if found is None or found.status in {"processing", "cancelled"}:
        raise ToolFailed(f"There is no invoice for {order}: it is {found.status if found else 'no order'}.")
    return f"Saved as {await invoice.save(found, context)}."


def gift_card(
    number: Annotated[str, Field(pattern=r"^GC-\d{4}-\d{4}$", description="Such as GC-1234-5678.")],
) -> dict[str, Any]:
    """Tells what is left on a gift card, and until when it is good."""
    card = shop.gift_card(number)
    if card is None:
        raise ToolFailed(f"There is no gift card {number}.", fix="The number is on its back.")
    return {"left": money(card.cents), "good until": card.expires_on}
