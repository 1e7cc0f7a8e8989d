"""Products, where they are in stock, and the answers to frequent questions."""

from typing import NamedTuple

from helpdesk import database, meaning
from helpdesk.shop.stores import Store


class Product(NamedTuple):
    id: str
    name: str
    kind: str
    category: str
    cents: int
    warranty_months: int
    rating: float
    description: str


_COLUMNS = "p.id, p.name, p.kind, p.category, p.cents, p.warranty_months, p.rating, p.description"


def product(product_id: str) -> Product | None:
    with database.opened() as db:
        row = db.execute(f"SELECT {_COLUMNS} FROM products p WHERE p.id = ?", (product_id,)).fetchone()
    return Product(*row) if row else None


def search(words: list[str], *, at_most: int | None = None, count: int = 4) -> list[Product]:
    """Returns the products that fit the words by meaning, best first. Nothing fits: an empty list.

    `at_most` is the highest price in cents.
    """
    with database.opened() as db:
        rows = db.execute(f"SELECT {_COLUMNS}, p.uses FROM products p ORDER BY p.id").fetchall()
    offered = tuple(meaning.Offered(row["name"], row["kind"], row["uses"], row["description"]) for row in rows)
    products = [Product(*tuple(row)[:-1]) for row in rows]
    fitting = [products[place] for place in meaning.fitting(words, offered)]
    return [found for found in fitting if at_most is None or found.cents <= at_most][:count]


def best_rated(*, at_most: int, count: int = 3) -> list[Product]:
    """The products that buyers like best, at a price of at most so many cents."""
    with database.opened() as db:
        rows = db.execute(
            f"SELECT {_COLUMNS} FROM products p WHERE p.cents <= ? ORDER BY p.rating DESC, p.cents DESC LIMIT ?",
            (at_most, count),
        ).fetchall()
    return [Product(*row) for row in rows]


def stock(product_id: str, stores: list[Store]) -> list[tuple[Store, int]]:
    """How many pieces each of these stores has, in their order."""
    with database.opened() as db:
        found = dict(db.execute("SELECT store_id, quantity FROM stock WHERE product_id = ?", (product_id,)).fetchall())
    return [(store, found.get(store.id, 0)) for store in stores]


def frequent_answer(question: str) -> str | None:
    """Returns the answer to the frequent question that means the same; None when none does."""
    with database.opened() as db:
        rows = db.execute("SELECT question, answer FROM faq").fetchall()
    place = meaning.same_question(question, tuple(row["question"] for row in rows))
    return None if place is None else rows[place]["answer"]
