"""The shop database: where it is, how it is made, how it is opened.

It is one SQLite file, made from schema.sql and rows/*.csv when it is first needed. HELPDESK_DB says where; otherwise it
lies in the user's cache folder. Dates in it are relative to the day it was made, so that there is always a parcel on its way.
"""

import csv
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, timedelta
from importlib import resources
from pathlib import Path

from helpdesk import clock
from helpdesk.passwords import hashed

SCHEMA = 2
"""Kept in the file as `user_version`: a file of another schema is refused, not misread."""


class DatabaseProblem(Exception):
    """The shop database cannot be used; the message says why and what to do."""


def path() -> Path:
    """Where the database is, or will be."""
    named = os.environ.get("HELPDESK_DB")
    if named:
        return Path(named)
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "turnwise-helpdesk" / "shop.db"


@contextmanager
def opened() -> Iterator[sqlite3.Connection]:
    """A connection to the database, which is made if it is missing. The block is one transaction.

    Raises DatabaseProblem when the file is no shop database, or cannot be made.
    """
    file = path()
    if not file.exists():
        make(file)
    with closing(_connected(file)) as connection, connection:
        yield connection


def _connected(file: Path) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(file, timeout=10)
        (found,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error as problem:
        raise DatabaseProblem(f"{file} cannot be read as a database: {problem}. Make it anew with make_data.py.") from problem
    if found != SCHEMA:
        connection.close()
        raise DatabaseProblem(f"{file} has schema {found}, this help desk needs {SCHEMA}. Make it anew with make_data.py.")
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def make(file: Path, *, replace: bool = False) -> None:
    """Makes the database, whole or not at all. A file that is there stays, unless `replace`. DatabaseProblem if it cannot."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=file.parent) as folder:
            draft = Path(folder) / "shop.db"
            with closing(sqlite3.connect(draft)) as connection, connection:
                _fill(connection, clock.today())
            if replace:
                draft.replace(file)
            else:
                _put(draft, file)
    except (OSError, sqlite3.Error) as problem:
        advice = "Set HELPDESK_DB to a file that can be written."
        raise DatabaseProblem(f"The shop database {file} cannot be made: {problem}. {advice}") from problem


def _put(draft: Path, file: Path) -> None:
    """Two processes may make it at once: a link never replaces what the other has put there."""
    try:
        os.link(draft, file)
    except FileExistsError:
        return
    except OSError:  # a file system without links
        draft.replace(file)


def _fill(connection: sqlite3.Connection, today: date) -> None:
    connection.executescript(_text("schema.sql"))
    _fill_products(connection)
    _fill_stores(connection)
    _fill_accounts(connection)
    _fill_orders(connection, today)
    _fill_small_tables(connection, today)
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def _text(name: str) -> str:
    return resources.files("helpdesk").joinpath(name).read_text(encoding="utf-8")


def _rows(table: str) -> list[dict[str, str]]:
    return list(csv.DictReader(_text(f"rows/{table}.csv").splitlines()))


def _cents(price: str) -> int:
    return round(float(price) * 100)


def _day(today: date, offset: str) -> str | None:
    return (today + timedelta(days=int(offset))).isoformat() if offset else None


def _insert(connection: sqlite3.Connection, table: str, *values: object) -> None:
    marks = ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)


def _fill_products(connection: sqlite3.Connection) -> None:
    for row in _rows("products"):
        about = (row["name"], row["kind"])
        numbers = (_cents(row["price"]), int(row["warranty_months"]), float(row["rating"]))
        _insert(connection, "products", row["id"], *about, row["category"], *numbers, row["uses"], row["description"])


def _fill_stores(connection: sqlite3.Connection) -> None:
    products = [row["id"] for row in _rows("products")]
    for number, row in enumerate(_rows("stores")):
        fields = ("id", "name", "street", "town", "state", "zip", "phone")
        _insert(connection, "stores", *(row[field] for field in fields))
        spans = [row["weekdays"]] * 5 + [row["saturday"], row["sunday"]]
        for weekday, span in enumerate(spans):
            if span:
                _insert(connection, "hours", row["id"], weekday, *span.split("-"))
        for place, product in enumerate(products):
            # No chance in it: a spread of 0 to 6 pieces that is the same in every database.
            _insert(connection, "stock", row["id"], product, (place * 5 + number * 3) % 7)


def _fill_accounts(connection: sqlite3.Connection) -> None:
    for row in _rows("accounts"):
        fields = ("email", "name", "street", "town", "state", "zip")
        known = (row[field] for field in fields)
        _insert(connection, "accounts", *known, int(row["points"]), hashed(f"first {row['email']}"), 0)


def _fill_orders(connection: sqlite3.Connection, today: date) -> None:
    prices = {row["id"]: _cents(row["price"]) for row in _rows("products")}
    for row in _rows("orders"):
        days = [_day(today, row[field]) for field in ("shipped", "expected", "delivered")]
        sent = (row["carrier"] or None, row["tracking"] or None)
        placed = _day(today, row["placed"])
        _insert(connection, "orders", row["id"], row["email"], placed, row["status"], *sent, *days, row["payment"])
        for line, item in enumerate(row["items"].split(";"), start=1):
            product, _, quantity = item.partition("*")
            _insert(connection, "order_items", row["id"], line, product, int(quantity or 1), prices[product])


def _fill_small_tables(connection: sqlite3.Connection, today: date) -> None:
    for row in _rows("refunds"):
        days = (_day(today, row["requested"]), _day(today, row["expected"]))
        _insert(connection, "refunds", None, row["order_id"], int(row["cents"]), row["status"], *days, row["method"])
    for row in _rows("gift_cards"):
        _insert(connection, "gift_cards", row["number"], int(row["cents"]), _day(today, row["expires"]))
    for row in _rows("faq"):
        _insert(connection, "faq", row["topic"], row["question"], row["answer"])
