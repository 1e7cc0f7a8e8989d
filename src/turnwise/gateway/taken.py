"""Which methods a path takes."""

from starlette.routing import Match
from starlette.types import Scope


def takes(scope: Scope, method: str) -> bool:
    """Whether one of the app's routes takes that method at the request's path."""
    asked = {**scope, "method": method}
    return any(route.matches(asked)[0] is Match.FULL for route in scope["app"].routes)
