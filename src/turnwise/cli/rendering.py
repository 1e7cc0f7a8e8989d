"""Decisions and events as a reader at a terminal sees them."""

import json
from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from turnwise.cli.clean import clean, one_line
from turnwise.facts.content import ArtifactPart, BlobPart, Content, DataPart, TextPart, ToolCallPart, ToolResultPart
from turnwise.facts.selections import Candidate, Exclusion, Selection, Verdict

RANKED_ROWS = 10
_STYLES = {"chosen": "green", "clarify": "yellow", "abstained": "dim"}


def table(*columns: str, right: Iterable[str] = ()) -> Table:
    """An empty table of our looks: no frame, as many characters as needed."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    return made


def decision_line(selection: Selection) -> Text:
    """Who answers and why, in one line."""
    line = Text("→ ", style="dim")
    line.append(one_line(selection.agent), style="bold cyan")
    line.append(f" · {one_line(selection.method)} {selection.confidence:.2f}", style="dim")
    if selection.reason:
        line.append(f" · {one_line(selection.reason)}", style="dim")
    return line


def decided_by(selection: Selection) -> Verdict | None:
    """The verdict that decided; None when no selector did."""
    chosen = [verdict for verdict in selection.verdicts if verdict.outcome != "abstained"]
    return chosen[-1] if chosen else None


def ranking(selection: Selection, rows: int = RANKED_ROWS) -> Table:
    """The chosen agent, then all who were considered: those of the deciding selector before those of the others."""
    made = table("", "agent", "score", "selector", "because", right=("", "score"))
    ranked = _ranked(selection)
    for number, (selector, candidate) in enumerate(ranked[:rows], 1):
        style = "bold" if candidate.agent == selection.agent else ""
        made.add_row(
            Text(str(number), style="dim"),
            Text(one_line(candidate.agent), style=style),
            Text(f"{candidate.score:.2f}", style=style),
            Text(one_line(selector), style="dim"),
            Text(one_line(candidate.evidence)),
        )
    if len(ranked) > rows:
        made.add_row("", Text(f"… {len(ranked) - rows} more", style="dim"))
    return made


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


def summary(selection: Selection) -> Text:
    """What decided, in how much time, under which policy and agents."""
    decider = decided_by(selection)
    parts = [f"decided by {decider.selector}" if decider else "no selector decided", f"{selection.ms:.1f} ms"]
    segment = f", segment {selection.segment}" if selection.segment else ""
    parts += [f"policy {selection.policy}{segment} ({selection.fingerprint})", f"agents {selection.tree_version}"]
    return Text(one_line(" · ".join(parts)), style="dim")


def explanation(selection: Selection) -> Iterator[RenderableType]:
    """Every verdict in the order they were asked, and who was not considered."""
    for number, verdict in enumerate(selection.verdicts, 1):
        yield _verdict_line(number, verdict)
        yield from _verdict_details(verdict)
    if selection.excluded:
        count = max(selection.excluded_count, len(selection.excluded))
        yield Text(f"not considered: {count}", style="bold")
        yield from _exclusions(selection.excluded)
        if count > len(selection.excluded):
            yield _indented(Text(f"… {count - len(selection.excluded)} more", style="dim"))


def _verdict_line(number: int, verdict: Verdict) -> Text:
    line = Text(f"{number}. ", style="dim")
    line.append(one_line(verdict.selector), style="bold")
    line.append(f"  {verdict.outcome}", style=_STYLES.get(verdict.outcome, ""))
    if verdict.agent:
        line.append(f" {one_line(verdict.agent)} {verdict.confidence:.2f} ({one_line(verdict.method or '')})")
    if verdict.reason:
        line.append(f"  {one_line(verdict.reason)}")
    line.append(f"  {verdict.ms:.1f} ms", style="dim")
    return line


def _verdict_details(verdict: Verdict) -> Iterator[RenderableType]:
    for candidate in verdict.candidates:
        line = Text(f"{candidate.score:.2f}  {one_line(candidate.agent)}")
        if candidate.evidence:
            line.append(f"  {one_line(candidate.evidence)}", style="dim")
        yield _indented(line)
    yield from _exclusions(verdict.passed_over, "passed over ")
    for ignored in verdict.ignored:
        yield _indented(Text(f"ignored: {one_line(ignored)}", style="yellow"))


def _exclusions(exclusions: Iterable[Exclusion], before: str = "") -> Iterator[RenderableType]:
    for exclusion in exclusions:
        line = Text(before, style="dim")
        line.append(one_line(exclusion.agent), style="default")
        line.append(f": {one_line(exclusion.rule)}", style="yellow")
        if exclusion.detail:
            line.append(f" ({one_line(exclusion.detail)})", style="dim")
        yield _indented(line)


def _indented(line: Text) -> Padding:
    return Padding(line, (0, 0, 0, 3))


def content_lines(content: Content) -> Iterator[Text]:
    """What was said, part by part, made safe; text keeps its lines."""
    for part in content.parts:
        if isinstance(part, TextPart):
            yield Text(clean(part.text))
        elif isinstance(part, DataPart):
            yield Text(one_line(json.dumps(part.data, ensure_ascii=False)), style="dim")
        elif isinstance(part, ArtifactPart):
            version = f", version {part.version}" if part.version else ""
            yield Text(one_line(f"[artifact {part.name}{version}]"), style="dim")
        elif isinstance(part, BlobPart):
            yield Text(one_line(f"[{part.mime_type}, {len(part.data):,} bytes]"), style="dim")
        elif isinstance(part, ToolCallPart):
            yield Text(one_line(f"[calls {part.tool} {json.dumps(part.arguments, ensure_ascii=False)}]", 500), style="dim")
        elif isinstance(part, ToolResultPart):
            yield Text(one_line(f"[result of {part.tool or part.call_id}]"), style="dim")
