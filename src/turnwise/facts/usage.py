"""Token usage and cost of model calls."""

from turnwise.facts.fact import Fact


class Usage(Fact):
    """Tokens, cost and time of one model call, or of several added together."""

    model: str = ""
    """The model as `provider:name`; empty for a sum over several models."""
    input_tokens: int = 0
    """All tokens of the request."""
    cached_tokens: int = 0
    """The input tokens read from the provider's cache."""
    output_tokens: int = 0
    """All tokens of the answer, including thinking."""
    cost: float | None = None
    """In US dollars; None when the price is unknown."""
    ms: float = 0.0
    """The duration in milliseconds."""
    calls: int = 1
    """The number of model calls."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            model=self.model if self.model == other.model else "",
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=None if self.cost is None or other.cost is None else self.cost + other.cost,
            ms=self.ms + other.ms,
            calls=self.calls + other.calls,
        )
