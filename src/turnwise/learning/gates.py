"""Quality gates: bounds on measures that make an evaluation fail a build (behaviour E3)."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.learning.measures import Latency, Measures, OutOfScope

KEYS = (
    *(key for key in Measures._fields if key not in {"nobody", "latency_ms", "by_method", "confusions"}),
    *(f"nobody.{key}" for key in OutOfScope._fields),
    *(f"latency_ms.{key}" for key in Latency._fields),
)
"""The measures that can be gated. `by_method.<method>.cases` and `.accuracy` can be gated too."""


class Gate(NamedTuple):
    """A lower or upper bound on a measure."""

    key: str
    """The measure's dotted key."""
    bound: float
    at_most: bool = False
    """True = upper bound."""


class Missed(NamedTuple):
    """A gate that failed."""

    gate: Gate
    found: float | None
    """The measured value; None = nothing to measure."""


def gate_from(text: str, *, at_most: bool = False) -> Gate:
    """Parses `KEY=VALUE`. Raises ValueError with the problem."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise ValueError(f"{text!r} is not KEY=VALUE.")
    if key not in KEYS and not (key.startswith("by_method.") and key.endswith((".cases", ".accuracy"))):
        raise ValueError(f"There is no figure {key!r}. Figures: {', '.join(KEYS)}, by_method.<method>.accuracy.")
    try:
        bound = float(value)
    except ValueError:
        bound = math.nan
    if not math.isfinite(bound):
        raise ValueError(f"{value!r} is not a number.")
    return Gate(key, bound, at_most)


def missed(gates: Iterable[Gate], data: Mapping[str, JsonValue]) -> list[Missed]:
    """Returns the gates that fail. A measure without a value fails every gate."""
    found = [(gate, figure(data, gate.key)) for gate in gates]
    return [Missed(gate, value) for gate, value in found if value is None or not _holds(gate, value)]


def figure(data: Mapping[str, JsonValue], key: str) -> float | None:
    """Returns the measure under a dotted key; None when there is none. Names of methods may contain dots."""
    at: JsonValue = dict(data)
    if key.startswith("by_method."):
        method, _, last = key.removeprefix("by_method.").rpartition(".")
        path = ["by_method", method, last]
    else:
        path = key.split(".")
    for part in path:
        at = at.get(part) if isinstance(at, dict) else None
    return float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None


def _holds(gate: Gate, value: float) -> bool:
    return value <= gate.bound if gate.at_most else value >= gate.bound
