"""Cost of adversarial texts for each reader of messages: CPU at 10,000 and 260,000 characters, and its growth."""

import time
from collections.abc import Callable

from bench.measure import Figure, progress
from nasty_texts import FEW, MANY, READERS, UNITS, text_of

_MOST_SECONDS = 5.0
_GROWTH = 2.0
"""Tolerance: how much more than the text the CPU may grow, because measurements vary."""
_SHORT = 0.005
"""Below this many seconds at the larger size, growth is not judged."""


def _cpu(reader: Callable[[str], object], text: str) -> float:
    began = time.thread_time()
    reader(text)
    return time.thread_time() - began


def nasty(*, quick: bool = False) -> list[Figure]:
    """Measures each reader on the text that costs it most at the larger size."""
    units = UNITS[::6] if quick else UNITS
    figures = []
    with progress("Nasty texts", len(READERS)) as step:
        for name, reader in READERS.items():
            reader("what is loaded once")
            worst = max(units, key=lambda unit: _cpu(reader, text_of(unit, MANY, "x", "x")))
            few = min(_cpu(reader, text_of(worst, FEW, "x", "x")) for _ in range(3))
            many = min(_cpu(reader, text_of(worst, MANY, "x", "x")) for _ in range(3))
            figures.append(_figure(f"{name}: {worst!a}", few, many))
            step(name)
    return figures


def _figure(name: str, few: float, many: float) -> Figure:
    """The bound is kept if the larger text is fast, or if the growth is at most linear and it is not slow."""
    most = _GROWTH * MANY / FEW
    kept = many < _SHORT or (many <= _MOST_SECONDS and many <= most * few)
    return Figure(name, f"{1_000 * few:.2f} → {1_000 * many:.1f} ms ({many / few:.0f}×)", "", f"≤ {most:.0f}×", kept)
