"""What a call of a model took."""

from turnwise.facts.fact import Fact


class Usage(Fact):
    """Tokens and cost of one call of a model; several calls add up.

    model: who answered, as `provider:name`; empty for a sum over several. input_tokens: all of the request's, cached_tokens:
    those of them that were read from the provider's cache. output_tokens: all of the answer's, thinking included. cost: in US
    dollars; None when the price is not known. ms: how long it took. calls: how many calls this is.
    """

    model: str = ""
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    ms: float = 0.0
    calls: int = 1

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
