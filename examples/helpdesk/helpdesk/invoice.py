"""Invoices, as files of the conversation."""

from helpdesk.shop import accounts
from helpdesk.shop.orders import Order
from helpdesk.wording import money
from turnwise import AgentContext


async def save(order: Order, context: AgentContext) -> str:
    """Saves the invoice as an artifact, and gives its name."""
    name = f"invoice-{order.id}.txt"
    await context.artifacts.save(name, _text(order).encode(), mime_type="text/plain")
    return name


def _text(order: Order) -> str:
    buyer = accounts.account(order.email)
    address = [buyer.name, buyer.street, f"{buyer.town}, {buyer.state} {buyer.zip}"] if buyer else []
    rows = [f"{item.quantity:>3} × {item.name:<36} {money(item.quantity * item.cents):>12}" for item in order.items]
    head = [f"Invoice for order {order.id}", f"Date: {order.shipped_on or order.placed_on}", "", *address, order.email, ""]
    return "\n".join([*head, *rows, f"{'Total':<42} {money(order.total):>12}", "", f"Paid by {order.payment}", ""])
