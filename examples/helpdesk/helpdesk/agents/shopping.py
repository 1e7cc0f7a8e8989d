"""Finding out where a product can be had, and ideas for gifts."""

import re

from helpdesk import reading
from helpdesk.agents.products import products
from helpdesk.agents.stores import stores
from helpdesk.asking import Unusable, ask_for, attend
from helpdesk.patterns import likely
from helpdesk.shop import catalogue, stores as store_desk
from helpdesk.shop.catalogue import Product
from helpdesk.shop.stores import Store
from helpdesk.wording import listed, money, numbered
from turnwise import AgentContext, Content, agent

_GIFT = re.compile(r"(?i)\b(?:gifts?|presents?)\b")
_STOCK = re.compile(r"(?i)\b(?:in stock|available|availability|has|have|get|buy|left|pick)\b")
_NEAR = r"\W*(?:(?:and|what about|how about|in|near|around|close to)\W+)*"
_GIFT_WORD = re.compile(
    r"gifts?|presents?|birthday|christmas|likes?|loves?|who|somebody|someone|ideas?|he|she|they|his|her"
    r"|dad|father|mom|mum|mother|parents?|brother|sister|wife|husband|friends?|son|daughter|kids?|boss|colleague|and"
)
_HIGHEST = 10_000


@agent(
    description="Tells which stores have a product in stock, and has ideas for gifts.",
    patterns=likely(r"\bin stock\b", means="whether a thing is in stock"),
    examples=[
        "Is this lamp available in your Boston store?",
        "Do you have it in Boston too?",
        "Is that one in stock?",
        "Which of your stores has the blender on the shelf?",
        "Can I pick it up in a shop today?",
        "How many pieces are left in New York?",
        "Where can I get this kettle in person?",
        "What could I give my sister for her birthday?",
        "A present for somebody who likes to cook",
        "Do you have ideas for a gift?",
        "A gift for my uncle, he likes to fish, at most $40",
    ],
    tags=["shopping"],
    children=[products, stores],
)
async def shopping(message: Content, context: AgentContext) -> str | None:
    return await attend(_shopping, message, context)


async def _shopping(message: Content, context: AgentContext) -> str | None:
    text = message.text
    if _GIFT.search(text):
        return _ideas(text, context)
    if _is_a_place(text) and not context.state.get("last_products"):
        await context.transfer("stores")
        return None
    if reading.price_limit(text) and not _STOCK.search(text):
        await context.transfer("products")
        return None
    product = await _product_meant(text, context)
    if product is None and not _STOCK.search(text):
        await context.transfer("supervisor")
        return None
    if product is None:
        return "Which product is it? Its name, or the kind of thing, is enough."
    context.state["last_products"] = [product.id]
    near = _stores_near(text) or await ask_for(
        context, f"In which town, or near which zip code, do you want the {product.name}?", _read_stores
    )
    return _stock(product, near)


def _ideas(message: str, context: AgentContext) -> str:
    """Gifts that fit what is said of the person; without a fit, what buyers like best."""
    limit = reading.price_limit(message) or _HIGHEST
    liked = [word for word in reading.words(message) if not _GIFT_WORD.fullmatch(word)]
    fitting = catalogue.search(liked, at_most=limit, count=3)
    ideas = fitting or catalogue.best_rated(at_most=limit)
    if not ideas:
        return f"We have nothing for {money(limit)}."
    context.state["last_products"] = [product.id for product in ideas]
    lines = numbered([f"{product.name}, {money(product.cents)}, rated {product.rating}" for product in ideas])
    about = "I would give one of these" if fitting else "Our buyers like these best"
    return f"{about}, up to {money(limit)}:\n{lines}"


def _is_a_place(text: str) -> bool:
    """Whether a zip code or a town is all that is said."""
    place = reading.zip_code(text) or reading.town(text, store_desk.towns())
    return place is not None and re.fullmatch(rf"(?i){_NEAR}{re.escape(place)}\W*", text) is not None


async def _product_meant(message: str, context: AgentContext) -> Product | None:
    """The one in the message; else, if it is about stock or picks one, one of those shown last."""
    towns = [word.lower() for town in store_desk.towns() for word in town.split()]
    found = catalogue.search([word for word in reading.words(message) if word not in towns], count=1)
    if found:
        return found[0]
    # A step, because the state is written before the agent asks, and must read the same when it is run again.
    before = await context.step("shown", lambda: context.state.get("last_products", []))
    assert isinstance(before, list)
    shown = [product for product in (catalogue.product(str(each)) for each in before) if product]
    place = reading.choice(message, [product.name for product in shown])
    if place is None and not (_STOCK.search(message) or _stores_near(message)):
        return None
    return shown[place or 0] if shown else None


def _stores_near(text: str) -> list[Store]:
    zip_code = reading.zip_code(text)
    if zip_code:
        return store_desk.near_zip(zip_code)
    town = reading.town(text, store_desk.towns())
    return store_desk.in_town(town) if town else []


def _read_stores(reply: Content) -> list[Store]:
    near = _stores_near(reply.text)
    if not near:
        raise Unusable(f"There is no store there. We have stores in {listed(store_desk.towns())}. Which town?")
    return near


def _stock(product: Product, near: list[Store]) -> str:
    stock = catalogue.stock(product.id, near)
    have = [f"{store.name} ({store.town}, {store.state}) has {pieces}" for store, pieces in stock if pieces]
    if have:
        return f"The {product.name} is in stock: {listed(have)}."
    everywhere = [store.name for store, pieces in catalogue.stock(product.id, store_desk.all_stores()) if pieces]
    others = f" It is in stock in {listed(everywhere[:3])}." if everywhere else ""
    nowhere = listed([store.name for store in near], "or")
    return f"The {product.name} is not in stock in {nowhere}.{others} You can always order it online."
