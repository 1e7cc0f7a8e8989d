"""The candidates for a message as a table."""

from collections.abc import Iterator

from rich.text import Text

from turnwise.cli.rendering import decided_by, styled
from turnwise.cli.terminal import one_line
from turnwise.cli.text_layout import fit_table
from turnwise.facts.selections import Candidate, Selection

RANKED_ROWS = 10


def ranking_table(selection: Selection, rows: int = RANKED_ROWS, *, width: int | None = None) -> Iterator[Text]:
    """A table of the candidates, each once: the chosen agent, then those of the deciding selector, then the others."""
    ranked = _ranked(selection)
    lines: list[list[str | Text]] = []
    for number, (selector, candidate) in enumerate(ranked[:rows], 1):
        style = "bold" if candidate.agent == selection.agent else ""
        lines.append(
            [
                styled(str(number), "dim"),
                styled(one_line(candidate.agent), style),
                styled(f"{candidate.score:.2f}", style),
                styled(one_line(selector), "dim"),
                one_line(candidate.evidence),
            ]
        )
    yield from fit_table(("", "agent", "score", "selector", "because"), lines, width, right=("", "score"))
    if len(ranked) > rows:
        yield styled(f"   … {len(ranked) - rows} more", "dim")


def _ranked(selection: Selection) -> list[tuple[str, Candidate]]:
    """Returns each candidate once with the selector that scored it: the chosen agent first, then those of the deciding
    selector.
    """
    decider = decided_by(selection)
    others = [verdict for verdict in selection.verdicts if verdict is not decider]
    found: dict[str, tuple[str, Candidate]] = {}
    for verdict in [decider, *others] if decider else others:
        for candidate in verdict.candidates:
            found.setdefault(candidate.agent, (verdict.selector, candidate))
    if selection.agent not in found:
        own = Candidate(agent=selection.agent, score=selection.confidence, evidence=selection.reason)
        found = {selection.agent: (decider.selector if decider else "", own), **found}
    return sorted(found.values(), key=lambda pair: pair[1].agent != selection.agent)
