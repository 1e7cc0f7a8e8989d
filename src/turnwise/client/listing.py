"""Lists that come in pages, as one."""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol, TypeVar

from turnwise.client.asked import Asked
from turnwise.client.gateway import Gateway

PAGE = 100


class Page(Protocol):
    """A page, and what is passed as `after` for the following one; None at the end."""

    @property
    def next(self) -> str | int | None: ...


P = TypeVar("P", bound=Page)
R = TypeVar("R")


async def listed(gateway: Gateway, kind: type[P], asked: Asked, rows: Callable[[P], Sequence[R]]) -> AsyncGenerator[R, None]:
    """All rows of all pages, each page asked for when it is wanted."""
    query = {"limit": PAGE, **asked.query}
    while True:
        page = await gateway.ask(kind, asked._replace(query=query))
        for row in rows(page):
            yield row
        if page.next is None:
            return
        query["after"] = page.next
