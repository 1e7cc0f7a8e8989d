"""Products, where they are in stock, and the answers to frequent questions."""

from typing import NamedTuple

from helpdesk import database
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
    """Products that have any of the words, best match first: the whole name, then words of the kind, the name, the rest.

    `at_most` is the highest price in cents. No words: nothing.
    """
    if not words:
        return []
    with database.opened() as db:
        rows = db.execute(
            f"SELECT {_COLUMNS} FROM products_text t JOIN products p ON p.id = t.id "
            "WHERE products_text MATCH ? AND p.cents <= ? "
            "ORDER BY bm25(products_text, 0, 6, 8, 1), p.rating DESC, p.id LIMIT ?",
            (_any_of(words), at_most if at_most is not None else 10**9, count + 5),
        ).fetchall()
    found = [Product(*row) for row in rows]
    return sorted(found, key=lambda product: not set(product.name.lower().split()) <= set(words))[:count]


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


def frequent_answer(words: list[str]) -> str | None:
    """The answer to the frequent question that has most of the words; None when none has any."""
    if not words:
        return None
    with database.opened() as db:
        row = db.execute(
            "SELECT answer FROM faq WHERE faq MATCH ? ORDER BY bm25(faq, 4, 1) LIMIT 1", (_any_of(words),)
        ).fetchone()
    return row["answer"] if row else None


def _any_of(words: list[str]) -> str:
    """A full-text query; quoting makes each word a plain string, so nobody can write query syntax."""
    return " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
