"""The catalogue and the stores for models."""

from typing import Annotated, Any

from pydantic import Field

from helpdesk import clock, reading
from helpdesk.shop import catalogue, stores as store_desk
from helpdesk.shop.catalogue import Product
from helpdesk.shop.stores import Store
from helpdesk.wording import hour, listed, money
from turnwise.errors import ToolFailed

Place = Annotated[str, Field(description="A town, or a zip code of five digits.")]


def search_products(
    words: Annotated[str, Field(description="What it should be, in a few words.")],
    at_most: Annotated[float | None, Field(gt=0, description="The highest price, in dollars.")] = None,
) -> list[dict[str, Any]]:
    """Searches the catalogue: the best matches with their ids, prices, ratings and months of warranty."""
    limit = None if at_most is None else round(at_most * 100)
    return [_told(product) for product in catalogue.search(reading.words(words), at_most=limit)]


def gift_ideas(at_most: Annotated[float, Field(gt=0, description="The highest price, in dollars.")]) -> list[dict[str, Any]]:
    """Lists what buyers like best up to a price."""
    return [_told(product) for product in catalogue.best_rated(at_most=round(at_most * 100))]


def stock(product: Annotated[str, Field(description="The product's id.")], place: Place) -> dict[str, int]:
    """Tells how many pieces of a product the stores there have."""
    if catalogue.product(product) is None:
        raise ToolFailed(f"There is no product {product!r}.", fix="search_products tells the ids.")
    return {f"{store.name}, {store.town}": pieces for store, pieces in catalogue.stock(product, _near(place))}


def find_stores(place: Place) -> list[dict[str, Any]]:
    """Finds stores by town or zip code, with their hours by weekday and whether they are open now."""
    return [
        {
            "name": store.name,
            "address": f"{store.street}, {store.town}, {store.state} {store.zip}",
            "phone": store.phone,
            "open now": store.is_open(clock.now()),
            "hours, Monday is 0": {day: f"{hour(opens)} to {hour(closes)}" for day, (opens, closes) in store.hours.items()},
        }
        for store in _near(place)
    ]


def frequent_answer(question: str) -> str:
    """Looks up what the shop answers to a frequent question: shipping, payment, returns, discounts, jobs, data."""
    return catalogue.frequent_answer(question) or "Nothing is written about that."


def _near(place: str) -> list[Store]:
    found = store_desk.near_zip(place) if reading.zip_code(place) == place else store_desk.in_town(place)
    if not found:
        raise ToolFailed(f"There is no store near {place!r}.", fix=f"There are stores in {listed(store_desk.towns())}.")
    return found


def _told(product: Product) -> dict[str, Any]:
    about = {"id": product.id, "name": product.name, "price": money(product.cents), "rated": product.rating}
    return {**about, "warranty in months": product.warranty_months, "description": product.description}
