"""Stores, and when they are open."""

from datetime import date, datetime, time
from typing import NamedTuple

from helpdesk import database


class Store(NamedTuple):
    """hours: opening and closing by weekday, 0 is Monday; a missing day is closed."""

    id: str
    name: str
    street: str
    town: str
    state: str
    zip: str
    phone: str
    hours: dict[int, tuple[time, time]]

    def open_on(self, day: date) -> tuple[time, time] | None:
        return self.hours.get(day.weekday())

    def is_open(self, at: datetime) -> bool:
        span = self.open_on(at.date())
        return span is not None and span[0] <= at.time() < span[1]


def all_stores() -> list[Store]:
    """Every store, in the order of their ids."""
    return _stores("1 = 1 ORDER BY id")


def store(store_id: str) -> Store | None:
    return next(iter(_stores("id = ?", store_id)), None)


def in_town(town: str) -> list[Store]:
    return _stores("town = ? COLLATE NOCASE ORDER BY id", town)


def near_zip(zip_code: str) -> list[Store]:
    """The stores whose zip code shares most leading digits, the nearest number first; at most three, none beyond the region.

    The first digit of a zip code is a group of states, the first three are a district.
    """
    for digits in (5, 3, 1):
        found = _stores("substr(zip, 1, ?) = ? ORDER BY abs(zip - ?), id LIMIT 3", digits, zip_code[:digits], int(zip_code))
        if found:
            return found
    return []


def towns() -> list[str]:
    """The towns that have a store, by name."""
    with database.opened() as db:
        return [row["town"] for row in db.execute("SELECT DISTINCT town FROM stores ORDER BY town")]


def _stores(where: str, *values: str | int) -> list[Store]:
    with database.opened() as db:
        rows = db.execute(f"SELECT id, name, street, town, state, zip, phone FROM stores WHERE {where}", values).fetchall()
        spans = db.execute("SELECT store_id, weekday, opens, closes FROM hours").fetchall()
    hours: dict[str, dict[int, tuple[time, time]]] = {}
    for store_id, weekday, opens, closes in spans:
        hours.setdefault(store_id, {})[weekday] = (time.fromisoformat(opens), time.fromisoformat(closes))
    return [Store(**row, hours=hours.get(row["id"], {})) for row in rows]
