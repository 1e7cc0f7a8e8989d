"""Sums the counts of decisions by one property each."""

from collections import Counter
from collections.abc import Callable, Iterable

from turnwise.gateway.redaction import Redactor
from turnwise.ports.decisions import DecisionCell, DecisionCounts
from turnwise.wire.resources import Confusion, DecisionCountsShown, FacetCount, TimeShown


def counts_of(counted: DecisionCounts, view: Redactor, *, labels: bool) -> DecisionCountsShown:
    """Returns the sums. Without `labels` there is no label among them."""
    cells = counted.cells
    confused: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        if labels and cell.label and cell.label != cell.agent:
            confused[cell.agent, cell.label] += cell.count
    return DecisionCountsShown(
        total=sum(cell.count for cell in cells),
        examined=counted.examined,
        complete=counted.complete,
        agents=_facet((cell for cell in cells if view.reaches(cell.agent)), lambda cell: cell.agent, labels),
        methods=_facet(cells, lambda cell: cell.method, labels),
        outcomes=_facet(cells, lambda cell: cell.outcome, labels),
        confidence=sorted(_facet(cells, lambda cell: str(cell.tenth), labels), key=lambda each: each.name),
        policies=_facet(cells, lambda cell: cell.policy, labels),
        confusions=[Confusion(agent=agent, label=label, count=n) for (agent, label), n in confused.most_common(50)],
        seconds=counted.seconds,
        times=[TimeShown(start=each.start, count=each.count, clarified=each.clarified) for each in counted.times],
    )


def _facet(cells: Iterable[DecisionCell], name_of: Callable[[DecisionCell], str], labels: bool) -> list[FacetCount]:
    """Returns the sums by name, the most frequent first."""
    found: dict[str, FacetCount] = {}
    for cell in cells:
        sums = found.setdefault(name_of(cell), FacetCount(name=name_of(cell), count=0))
        sums.count += cell.count
        sums.clarified += cell.count if cell.outcome == "clarify" else 0
        if labels and cell.label is not None:
            sums.labelled += cell.count
            sums.contradicted += cell.count if cell.label != cell.agent else 0
    return sorted(found.values(), key=lambda each: (-each.count, each.name))
