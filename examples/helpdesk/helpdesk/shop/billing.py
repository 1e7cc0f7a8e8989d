"""Refunds and gift cards."""

from datetime import date
from typing import NamedTuple

from helpdesk import database
from helpdesk.shop import orders


class Refund(NamedTuple):
    """status: `requested` or `paid`. expected_on: when the money is, or was, to arrive."""

    order_id: str
    cents: int
    status: str
    requested_on: date
    expected_on: date
    method: str


class GiftCard(NamedTuple):
    number: str
    cents: int
    expires_on: date


def refunds(order_id: str) -> list[Refund]:
    """The refunds of an order, oldest first."""
    return _refunds("r.order_id = ?", order_id)


def refunds_of(email: str) -> list[Refund]:
    """The refunds of an account, oldest first."""
    return _refunds("o.email = ?", email)


def same_purchases(order_id: str) -> list[str]:
    """Other orders of the account, of the same day and with the same items: what looks like a double charge. None cancelled."""
    order = orders.order(order_id)
    if order is None:
        return []
    bought = [(item.product_id, item.quantity) for item in order.items]
    return [
        other.id
        for other in orders.orders_of(order.email)
        if other.id != order.id
        and other.placed_on == order.placed_on
        and other.status != "cancelled"
        and [(item.product_id, item.quantity) for item in other.items] == bought
    ]


def gift_card(number: str) -> GiftCard | None:
    with database.opened() as db:
        row = db.execute("SELECT number, cents, expires_on FROM gift_cards WHERE number = ?", (number,)).fetchone()
    return GiftCard(row["number"], row["cents"], date.fromisoformat(row["expires_on"])) if row else None


def _refunds(where: str, value: str) -> list[Refund]:
    with database.opened() as db:
        rows = db.execute(
            "SELECT r.order_id, r.cents, r.status, r.requested_on, r.expected_on, r.method "
            f"FROM refunds r JOIN orders o ON o.id = r.order_id WHERE {where} ORDER BY r.id",
            (value,),
        ).fetchall()
    days = ("requested_on", "expected_on")
    return [Refund(**{**row, **{day: date.fromisoformat(row[day]) for day in days}}) for row in rows]
