"""Orders, their items, returns and warranty claims."""

import calendar
import sqlite3
from datetime import date, timedelta
from typing import NamedTuple

from helpdesk import clock, database

RETURN_DAYS = 30
"""How long after delivery an item can go back."""


class Item(NamedTuple):
    """One line of an order. `cents` is the price of one piece."""

    line: int
    product_id: str
    name: str
    quantity: int
    cents: int
    warranty_months: int


class Order(NamedTuple):
    """An order as it stands. A day is None when it has not come yet."""

    id: str
    email: str
    placed_on: date
    status: str
    carrier: str | None
    tracking: str | None
    shipped_on: date | None
    expected_on: date | None
    delivered_on: date | None
    payment: str
    items: tuple[Item, ...]

    @property
    def total(self) -> int:
        return sum(item.quantity * item.cents for item in self.items)

    @property
    def return_until(self) -> date | None:
        """The last day on which an item can go back; None while it is not delivered."""
        return self.delivered_on + timedelta(days=RETURN_DAYS) if self.delivered_on else None

    def warranty_until(self, item: Item) -> date | None:
        """The last day of the item's warranty; None when it has none."""
        return _months_later(self.delivered_on or self.placed_on, item.warranty_months) if item.warranty_months else None


class Return(NamedTuple):
    """A return as it was announced. `way` is `post` or `store`; `receipt` names an artifact."""

    id: int
    order_id: str
    line: int
    reason: str
    way: str
    receipt: str | None
    created_on: date
    status: str


def order(number: str) -> Order | None:
    """The order with its items by line; None when there is none of that number."""
    with database.opened() as db:
        row = db.execute("SELECT * FROM orders WHERE id = ?", (number,)).fetchone()
        return _order(db, row) if row else None


def orders_of(email: str) -> list[Order]:
    """The orders of an account, newest first."""
    with database.opened() as db:
        rows = db.execute("SELECT * FROM orders WHERE email = ? ORDER BY placed_on DESC, id DESC", (email,)).fetchall()
        return [_order(db, row) for row in rows]


def cancel(number: str) -> bool:
    """Cancels an order that has not left yet and asks for its money back. False when it is too late, or was done before."""
    today = clock.today()
    with database.opened() as db:
        done = db.execute(
            "UPDATE orders SET status = 'cancelled', expected_on = NULL WHERE id = ? AND status = 'processing'", (number,)
        )
        if done.rowcount == 0:
            return False
        db.execute(
            "INSERT INTO refunds (order_id, cents, status, requested_on, expected_on, method) "
            "SELECT o.id, sum(i.quantity * i.cents), 'requested', ?, ?, o.payment "
            "FROM orders o JOIN order_items i ON i.order_id = o.id WHERE o.id = ? GROUP BY o.id",
            (today.isoformat(), (today + timedelta(days=5)).isoformat(), number),
        )
    return True


def announce_return(number: str, line: int, *, reason: str, note: str, way: str, receipt: str | None) -> int | None:
    """Announces that an item comes back. Gives the return's number, or None when that item was announced before."""
    with database.opened() as db:
        made = db.execute(
            "INSERT OR IGNORE INTO returns (order_id, line, reason, note, way, receipt, created_on) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, line, reason, note, way, receipt, clock.today().isoformat()),
        )
        return made.lastrowid if made.rowcount else None


def returns_of(number: str) -> list[Return]:
    """What was announced to come back from an order, by line."""
    with database.opened() as db:
        rows = db.execute(
            "SELECT id, order_id, line, reason, way, receipt, created_on, status FROM returns WHERE order_id = ? ORDER BY line",
            (number,),
        ).fetchall()
    return [Return(**{**row, "created_on": date.fromisoformat(row["created_on"])}) for row in rows]


def claim_warranty(number: str, line: int, fault: str) -> int | None:
    """Opens a warranty claim. Gives its number, or None when there is one for that item."""
    with database.opened() as db:
        made = db.execute(
            "INSERT OR IGNORE INTO claims (order_id, line, fault, created_on) VALUES (?, ?, ?, ?)",
            (number, line, fault, clock.today().isoformat()),
        )
        return made.lastrowid if made.rowcount else None


def _order(db: sqlite3.Connection, row: sqlite3.Row) -> Order:
    items = db.execute(
        "SELECT i.line, i.product_id, p.name, i.quantity, i.cents, p.warranty_months "
        "FROM order_items i JOIN products p ON p.id = i.product_id WHERE i.order_id = ? ORDER BY i.line",
        (row["id"],),
    ).fetchall()
    return Order(
        id=row["id"],
        email=row["email"],
        placed_on=date.fromisoformat(row["placed_on"]),
        status=row["status"],
        carrier=row["carrier"],
        tracking=row["tracking"],
        shipped_on=_day(row["shipped_on"]),
        expected_on=_day(row["expected_on"]),
        delivered_on=_day(row["delivered_on"]),
        payment=row["payment"],
        items=tuple(Item(*item) for item in items),
    )


def _day(text: str | None) -> date | None:
    return date.fromisoformat(text) if text else None


def _months_later(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))
