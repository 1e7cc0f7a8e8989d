"""The models' usage: tokens, calls and cost, for an event and in total."""

from collections.abc import Iterator

from rich.text import Text

from turnwise.cli.terminal import one_line
from turnwise.facts.events import Event
from turnwise.facts.usage import Usage


class UsageTotal:
    """Adds up the models' usage of events, including superseded ones."""

    def __init__(self) -> None:
        self._total: Usage | None = None

    def add(self, event: Event) -> None:
        took = usage_of(event)
        if took is not None:
            self._total = took if self._total is None else self._total + took

    def lines(self) -> Iterator[Text]:
        """One line with the total; none if no model was called."""
        if self._total is not None:
            yield Text().append(f"models in all: {usage_text(self._total)}", "dim")


def usage_text(usage: Usage) -> str:
    """The model, the number of calls, the tokens, and the cost if the price is known."""
    cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
    asked = [one_line(usage.model) if usage.model else "", f"{usage.calls} calls" if usage.calls != 1 else ""]
    cost = "" if usage.cost is None else f"${usage.cost:.4f}"
    tokens = f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"
    return " · ".join(filter(None, [*asked, tokens, cost]))


def usage_of(event: Event) -> Usage | None:
    """The models' usage for that event: for its content and for the decision about it. None if there was none."""
    selection = event.actions.selection
    took = [verdict.usage for verdict in selection.verdicts if verdict.usage] if selection else []
    total = None
    for usage in [*filter(None, [event.actions.usage]), *took]:
        total = usage if total is None else total + usage
    return total
