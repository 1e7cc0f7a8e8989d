"""Names by which an agent's developer knows what the context offers: errors use these, never those of our classes."""

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def named(place: str) -> Callable[[F], F]:
    """Gives a method the name that Python uses in its own errors, such as for a missing argument."""

    def rename(method: F) -> F:
        method.__qualname__ = place
        return method

    return rename


def no_attribute(place: str, hint: str = "") -> Callable[[Any, str], Any]:
    """Returns a `__getattr__` that says that the place has no such attribute. hint: `{}` stands for the attribute's name."""

    def __getattr__(self: Any, name: str) -> Any:
        more = f" {hint.format(name)}" if hint else ""
        raise AttributeError(f"{place} has no attribute {name!r}.{more}", name=name, obj=self)

    return __getattr__
