"""Values of labels that stay few, whatever agents, models and users come up with: each is a time series that is kept."""

from collections.abc import Iterable, Iterator

from turnwise.facts.errors import TurnwiseError
from turnwise.facts.limits import Limits

OTHER = "other"
MOST, CHARACTERS = 100, 100

ENDS = ("completed", "clarify", "failed", "cancelled", "blocked", "loop", "waiting", "lost")


class Few:
    """Lets known values through, and the first `more` others; the rest is OTHER."""

    def __init__(self, known: Iterable[str] = (), *, more: int = 0) -> None:
        self._let = set(known)
        self._more = more

    def of(self, value: str) -> str:
        """The value as a label."""
        value = value[:CHARACTERS]
        if value in self._let:
            return value
        if self._more <= 0:
            return OTHER
        self._more -= 1
        self._let.add(value)
        return value


def ends() -> Few:
    """How invocations end, and how they are left."""
    return Few((*ENDS, *(f"limit:{which}" for which in Limits.model_fields)))


def codes() -> Few:
    """The codes of our errors, and of those that are made of them."""
    return Few(_codes(TurnwiseError))


def _codes(kind: type[TurnwiseError]) -> Iterator[str]:
    yield kind.code
    for below in kind.__subclasses__():
        yield from _codes(below)
