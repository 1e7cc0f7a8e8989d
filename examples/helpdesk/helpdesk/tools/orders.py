"""Orders for models: finding, cancelling, sending back, warranty."""

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import Field

from helpdesk import clock
from helpdesk.shop import orders as shop
from helpdesk.shop.orders import Order
from helpdesk.tools.accounts import address
from helpdesk.wording import money
from turnwise import AgentContext
from turnwise.errors import ToolFailed
from turnwise.tools import tool

Number = Annotated[str, Field(pattern=r"^A-\d{5}$", description="The order's number, such as A-10412.")]
Line = Annotated[int, Field(ge=1, description="The line of the item in its order, from 1.")]


def find_order(order: Number, context: AgentContext) -> dict[str, Any]:
    """Tells all about an order: its state and days, its items, until when each may go back and is under warranty."""
    found = _found(order)
    context.state["last_order"] = found.id
    return _told(found)


def orders_of(email: str, context: AgentContext) -> list[dict[str, Any]]:
    """Lists the latest orders of a customer, by e-mail address."""
    return [_told(order) for order in shop.orders_of(address(email, context))[:5]]


@tool(confirm=True)
def cancel_order(order: Number) -> str:
    """Cancels an order that has not left yet, and asks for its money back. The customer is asked first whether they agree."""
    found = _found(order)
    if not shop.cancel(found.id):
        raise ToolFailed(f"Order {found.id} cannot be cancelled: it is {found.status}.")
    return f"Order {found.id} is cancelled. {money(found.total)} go back to {found.payment} within five days."


def announce_return(
    order: Number,
    line: Line,
    reason: Literal["broken", "wrong item", "not as described", "changed mind", "other"],
    words: Annotated[str, Field(description="What the customer said about it.")],
    way: Literal["post", "store"],
    receipt: Annotated[str | None, Field(description="The name of the file with the receipt, if there is one.")] = None,
) -> str:
    """Announces that an item comes back, by post or to a store."""
    found = _found(order)
    item = _item(found, line)
    if found.return_until is None:
        raise ToolFailed(f"Order {found.id} is not delivered, it is {found.status}.")
    if found.return_until < clock.today():
        raise ToolFailed(f"The 30 days were over on {found.return_until}.", fix="What broke may be under warranty.")
    number = shop.announce_return(found.id, line, reason=reason, note=words, way=way, receipt=receipt)
    if number is None:
        raise ToolFailed(f"The {item.name} is announced to come back already.")
    return f"Return {number} is announced; {money(item.cents * item.quantity)} go back to {found.payment}."


def returns_of(order: Number) -> list[dict[str, Any]]:
    """Tells what was announced to come back from an order, and how far that is."""
    return [given._asdict() for given in shop.returns_of(_found(order).id)]


def claim_warranty(
    order: Number, line: Line, fault: Annotated[str, Field(description="What is wrong with it, in the customer's words.")]
) -> str:
    """Opens a warranty claim for an item that broke."""
    found = _found(order)
    item = _item(found, line)
    until = found.warranty_until(item)
    if until is None or until < clock.today():
        raise ToolFailed(f"The {item.name} has no warranty any more." if until else f"The {item.name} has no warranty.")
    number = shop.claim_warranty(found.id, line, fault)
    if number is None:
        raise ToolFailed(f"There is a claim for the {item.name} already.")
    return f"Claim {number} is open. A label goes to {found.email}; it is repaired or replaced within ten working days."


def _found(number: str) -> Order:
    found = shop.order(number)
    if found is None:
        raise ToolFailed(f"There is no order {number}.", fix="Ask for the number in the confirmation mail.")
    return found


def _item(order: Order, line: int) -> shop.Item:
    if line > len(order.items):
        raise ToolFailed(f"Order {order.id} has {len(order.items)} lines.")
    return order.items[line - 1]


def _told(order: Order) -> dict[str, Any]:
    days: dict[str, date | None] = {
        "placed": order.placed_on, "left": order.shipped_on, "expected": order.expected_on, "delivered": order.delivered_on,
        "return until": order.return_until,
    }  # fmt: skip
    items = [
        {
            "line": item.line,
            "name": item.name,
            "pieces": item.quantity,
            "price": money(item.cents),
            "warranty until": order.warranty_until(item),
        }
        for item in order.items
    ]
    about = {"order": order.id, "state": order.status, "carrier": order.carrier, "tracking": order.tracking}
    paid = {"total": money(order.total), "paid by": order.payment}
    return {**about, **{name: day for name, day in days.items() if day}, **paid, "items": items}
