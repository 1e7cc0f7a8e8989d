"""Questions about products: a search over the catalogue, and details of what it found."""

import re

from helpdesk import reading
from helpdesk.patterns import likely
from helpdesk.shop import catalogue, stores
from helpdesk.shop.catalogue import Product
from helpdesk.wording import money, numbered
from turnwise import AgentContext, agent

_SEEKING = r"\b(?:looking for|look for|find(?: me)?|show me|search(?: for)?)\b"
_UP_TO = r"\b(?:under|below|at most|up to|(?:less|cheaper|(?:no|not) more) than) \$ ?\d"
_CHEAPER = re.compile(r"(?i)\b(?:cheaper|less expensive|lower price|too (?:expensive|much))\b")
_SEEKS = re.compile(r"(?i)\b(?:you|for|any|anything|something|have|sell|buy|an?)\b")
_WHERE = re.compile(
    r"(?i)\b(?:in stock|available|availability|pick (?:it|them) up|gifts?|presents?|(?:which|what) (?:stores?|shops?))\b"
)
_DETAILS = re.compile(
    r"(?i)\b(?:tell me more|more about|details?|it|(?:that|this) one|first|second|third|last|describe|how much|price|cost)\b"
)


@agent(
    description="Searches the catalogue and answers questions about products, prices and warranties.",
    patterns=likely(rf"{_SEEKING}[^.?!]* {_UP_TO}", means="a thing up to a price"),
    examples=[
        "I am looking for a lamp for my desk.",
        "I'm looking for a backpack under $80.",
        "Do you have headphones without a cable?",
        "What does the blender cost?",
        "Which kettle is the best?",
        "Something to keep me warm in winter, what do you have?",
        "Show me your tents.",
        "I would like to buy a new tablet.",
        "Find a charger for a notebook.",
        "Are there cheaper ones?",
        "Tell me more about this product.",
        "Compare these coffee makers.",
        "Which backpack would you recommend?",
        "Do you carry e-readers?",
    ],
    tags=["shopping"],
)
async def products(message: str, context: AgentContext) -> str | None:
    if _WHERE.search(message) or reading.town(message, stores.towns()):
        await context.transfer("shopping")
        return None
    shown: list[str] = context.state.get("last_products", [])
    limit, words = _wanted(message, shown, context)
    found = catalogue.search(words, at_most=limit)
    asks_more = limit is None and _DETAILS.search(message) is not None
    if asks_more and (meant := _product_meant(message, shown, or_first=not found)):
        context.state["last_products"] = [meant.id, *(other for other in shown if other != meant.id)]
        return _details(meant)
    if found:
        await _offer(found, words, context)
        return None
    if not shown and not words:
        return "What are you looking for? A kind of thing is enough, and a highest price if you like."
    if limit is None and not _SEEKS.search(message):
        await context.transfer("shopping")
        return None
    below = f" for at most {money(limit)}" if limit else ""
    return (
        f"Nothing in our catalogue fits “{reading.quoted(message)}”{below}. "
        "We have things for kitchen, home, electronics and outdoor."
    )


def _wanted(message: str, shown: list[str], context: AgentContext) -> tuple[int | None, list[str]]:
    """The highest price and the words to search for; with a price alone ("cheaper?"), the words of the last search."""
    limit, words = reading.price_limit(message), reading.words(message)
    if limit is None and shown and _CHEAPER.search(message):
        limit = _cheapest(shown) - 1
    if limit is not None and not catalogue.search(words):
        words = context.state.get("last_search", words)
    return limit, words


async def _offer(found: list[Product], words: list[str], context: AgentContext) -> None:
    context.state["last_products"] = [product.id for product in found]
    context.state["last_search"] = [*words]
    async with context.stream() as out:
        await out.write("This fits best:\n" if len(found) == 1 else f"These {len(found)} fit best:\n")
        await out.write(numbered([_line(product) for product in found]))


def _line(product: Product) -> str:
    return f"{product.name}, {money(product.cents)}, rated {product.rating}: {product.description}"


def _product_meant(message: str, shown: list[str], *, or_first: bool) -> Product | None:
    """Of those shown: the one that is named, by number or by a word of its name; else the first, or None."""
    known = [product for product in map(catalogue.product, shown) if product]
    place = reading.choice(message, [product.name for product in known])
    if place is not None:
        return known[place]
    return known[0] if known and or_first else None


def _details(product: Product) -> str:
    warranty = f"{product.warranty_months} months of warranty" if product.warranty_months else "no warranty"
    return f"{_line(product)} It comes with {warranty}."


def _cheapest(shown: list[str]) -> int:
    return min(product.cents for product in map(catalogue.product, shown) if product)
