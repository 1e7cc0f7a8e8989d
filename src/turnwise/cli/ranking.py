"""Who was considered for a message, best first."""

from collections.abc import Iterator

from rich.text import Text

from turnwise.cli.clean import one_line
from turnwise.cli.rendering import decided_by, styled
from turnwise.cli.tables import fitted
from turnwise.facts.selections import Candidate, Selection

RANKED_ROWS = 10


def ranking(selection: Selection, rows: int = RANKED_ROWS, *, width: int | None = None) -> Iterator[Text]:
    """The chosen agent, then all who were considered: those of the deciding selector before those of the others."""
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
    yield from fitted(("", "agent", "score", "selector", "because"), lines, width, right=("", "score"))
    if len(ranked) > rows:
        yield styled(f"   … {len(ranked) - rows} more", "dim")


def _ranked(selection: Selection) -> list[tuple[str, Candidate]]:
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
