"""How sure a pattern is that a message belongs to its agent."""

from turnwise import Pattern

PLAIN, LIKELY = 0.95, 0.8
ORDER = r"\bA[- ]?\d{5}\b"
"""An order's number: patterns are good for what is always written alike. What requests mean is read from the examples."""


def plain(*expressions: str, means: str) -> list[Pattern]:
    """Plainly a new request: it leaves the agent that is busy, even one that waits for a reply."""
    return [Pattern(regex=expression, confidence=PLAIN, label=means) for expression in expressions]


def likely(*expressions: str, means: str) -> list[Pattern]:
    """Enough to be chosen, not enough to interrupt an agent that waits for a reply."""
    return [Pattern(regex=expression, confidence=LIKELY, label=means) for expression in expressions]
