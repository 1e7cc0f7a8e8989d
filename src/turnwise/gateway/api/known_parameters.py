"""Query parameters of our own API: one that a route does not have is refused."""

from collections.abc import Iterator
from typing import Any

from fastapi import Request

from turnwise.facts.errors import RequestInvalid

SHOWN = 64
"""Characters of a name that the refusal repeats."""


async def check_parameters(request: Request) -> None:
    """RequestInvalid for a query parameter that the route does not know.

    A misspelled filter that is ignored would return everything, as if all of it fitted.
    """
    if not request.query_params:
        return
    known = sorted(set(_names(request.scope["route"].dependant)))
    for name in request.query_params:
        if name not in known:
            fix = f"Known here: {', '.join(known)}." if known else "Leave it out: nothing is known here."
            raise RequestInvalid(f"There is no query parameter {name[:SHOWN]!r} here.", fix=fix, where=("query", name[:SHOWN]))


def _names(dependant: Any) -> Iterator[str]:
    """The names of its query parameters, and of those that it depends on."""
    for field in dependant.query_params:
        yield field.alias
    for needed in dependant.dependencies:
        yield from _names(needed)
