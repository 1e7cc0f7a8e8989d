"""Where the stores are, and when they are open."""

import re
from collections.abc import AsyncIterator
from datetime import date

from helpdesk import clock, reading
from helpdesk.patterns import plain
from helpdesk.shop import stores as shop
from helpdesk.shop.stores import Store
from helpdesk.wording import hour, listed, on
from turnwise import AgentContext, agent

_STORE = r"(?:stores?|shops?|branch(?:es)?|locations?)"
_ABOUT = re.compile(
    rf"(?i)\b(?:{_STORE}|open\w*|clos\w+|hours?|times?|where|near\w*|address|phone|call|there|when|late|early|other|another|in"
    r"|today|tonight|tomorrow|(?:mon|tues|wednes|thurs|fri|satur|sun)days?)\b"
)


@agent(
    description="Finds stores by town or zip code and tells when they are open.",
    patterns=plain(
        r"\b(?:near|close to|around) \d{5}\b",
        r"\b(?:nearest|closest) (?:store|shop|branch)\b",
        means="a store near a place",
    ),
    examples=[
        "Is there a shop in my town?",
        "Do you have a store in Hartford?",
        "Where is the nearest store?",
        "When do you open in the morning?",
        "Until when are you open tonight?",
        "Are your stores closed on holidays?",
        "What is the address of your shop in Boston?",
        "Is the store open on Saturday?",
        "Do you have a branch around here?",
        "Which stores do you have in Maine?",
        "What is the phone number of the store?",
    ],
    tags=["shopping"],
)
async def stores(message: str, context: AgentContext) -> AsyncIterator[str]:
    found = _stores_meant(message, context)
    if found is None and not _ABOUT.search(message):
        await context.transfer("shopping")
        return
    if found is None:
        yield f"In which town, or near which zip code? We have stores in {listed(shop.towns())}."
        return
    if not found:
        yield f"There is no store in that region. We have stores in {listed(shop.towns())}."
        return
    context.state["last_stores"] = [store.id for store in found]
    yield "\n".join(_line(store, message) for store in found)


def _stores_meant(message: str, context: AgentContext) -> list[Store] | None:
    """By zip code, else by town, else those spoken of last. Empty: none is near. None: nothing was said."""
    zip_code = reading.zip_code(message)
    if zip_code:
        return shop.near_zip(zip_code)
    town = reading.town(message, shop.towns())
    if town:
        found = shop.in_town(town)
        state = {store.state for store in found if re.search(rf"\b{store.state}\b", message)}
        return [store for store in found if not state or store.state in state]
    if not _ABOUT.search(message):
        return None
    before = [shop.store(store_id) for store_id in context.state.get("last_stores", [])]
    return [store for store in before if store] or None


def _line(store: Store, message: str) -> str:
    now = clock.now()
    day = reading.day(message, now.date())
    where = f"{store.name}, {store.street}, {store.town}, {store.state} {store.zip}, {store.phone}"
    if day is not None and day != now.date():
        return f"{store.name}, {store.town}: {_hours(store, day)}."
    return f"{where}: {'open now' if store.is_open(now) else 'closed now'}; {_hours(store, now.date())}."


def _hours(store: Store, day: date) -> str:
    span = store.open_on(day)
    return f"{on(day)} {hour(span[0])} to {hour(span[1])}" if span else f"closed {on(day)}"
