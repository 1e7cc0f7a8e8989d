"""Renders decisions, messages and events as styled lines and tables, wrapped to the width of the terminal."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import JsonValue
from rich.cells import cell_len, chop_cells
from rich.text import Text

from turnwise.cli.terminal import clean, one_line
from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)
from turnwise.facts.events import Event
from turnwise.facts.selections import Exclusion, Selection, Verdict
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


SHOWN_MILLISECONDS = 0.1
_STYLES = {"chosen": "green", "clarify": "yellow", "abstained": "dim"}


def styled(text: str, style: str) -> Text:
    """Text in a style that does not extend to text appended later."""
    return Text().append(text, style=style)


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, right: Iterable[str] = ()) -> Iterator[Text]:
    """Aligned lines below a dim header. Only the last column may exceed the terminal's width."""
    lines = [[styled(name, "dim") for name in columns]]
    lines += [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    widths = [max(cell_len(line[index].plain) for line in lines) for index in range(len(columns))]
    aligned_right = [name in right for name in columns]
    for line in lines:
        made = Text()
        for cell, width, to_right in zip(line, widths, aligned_right, strict=True):
            space = " " * (width - cell_len(cell.plain))
            made.append(space if to_right else "").append_text(cell).append("  " if to_right else space + "  ")
        made.rstrip()
        yield made


def indent(line: Text, by: int = 3) -> Text:
    """Indents the line, and all lines that it consists of."""
    space = " " * by
    return Text("\n").join(Text(space).append_text(part) for part in line.split("\n", allow_blank=True))


def decision_line(selection: Selection) -> Text:
    """One line with the chosen agent and the reason."""
    line = styled("→ ", "dim")
    line.append(one_line(selection.agent), style="bold cyan")
    if selection.outcome == "clarify":
        line.append(" asks which it is", style="yellow")
    line.append(f" · {one_line(selection.method)} {selection.confidence:.2f}", style="dim")
    if selection.reason:
        line.append(f" · {one_line(selection.reason)}", style="dim")
    return line


def decided_by(selection: Selection) -> Verdict | None:
    """The verdict that decided; None if no selector did."""
    chosen = [verdict for verdict in selection.verdicts if verdict.outcome != "abstained"]
    return chosen[-1] if chosen else None


def summary_line(selection: Selection) -> Text:
    """One line with the deciding selector, the time, the policy and the agents' version."""
    decider = decided_by(selection)
    parts = [f"decided by {decider.selector}" if decider else "no selector decided", f"{selection.ms:.1f} ms"]
    segment = f", segment {selection.segment}" if selection.segment else ""
    parts += [f"policy {selection.policy}{segment} ({selection.fingerprint})", f"agents {selection.tree_version}"]
    return styled(one_line(" · ".join(parts)), "dim")


def explanation_lines(selection: Selection, options: Mapping[str, JsonValue] | None = None) -> Iterator[Text]:
    """Every verdict in order, and the excluded agents.

    Args:
        options: the stages' options, by selector, to show with the verdicts.
    """
    for number, verdict in enumerate(selection.verdicts, 1):
        yield _verdict_line(number, verdict)
        if options and (set_ := _options_line(options.get(verdict.selector))):
            yield indent(styled(set_, "dim"))
        yield from _verdict_details(verdict)
    if selection.excluded:
        count = max(selection.excluded_count, len(selection.excluded))
        yield styled(f"not considered: {count}", "bold")
        yield from _exclusions(selection.excluded)
        if count > len(selection.excluded):
            yield indent(styled(f"… {count - len(selection.excluded)} more", "dim"))


def _verdict_line(number: int, verdict: Verdict) -> Text:
    """Returns a line with the verdict of the `number`th selector that was asked."""
    line = styled(f"{number}. ", "dim")
    line.append(one_line(verdict.selector), style="bold")
    line.append(f"  {verdict.outcome}", style=_STYLES.get(verdict.outcome, ""))
    if verdict.agent:
        line.append(f" {one_line(verdict.agent)} {verdict.confidence:.2f} ({one_line(verdict.method or '')})")
    if verdict.reason:
        line.append(f"  {one_line(verdict.reason)}")
    if verdict.ms >= SHOWN_MILLISECONDS:
        line.append(f"  {verdict.ms:.1f} ms", style="dim")
    return line


def _options_line(options: JsonValue) -> str:
    """The options that are set, as `threshold 0.7, margin 0.1`."""
    given = options.items() if isinstance(options, dict) else ()
    return ", ".join(f"{key} {one_line(str(value))}" for key, value in given if value not in (None, ""))


def _verdict_details(verdict: Verdict) -> Iterator[Text]:
    """Yields the details of a verdict: lead, out-of-scope score, usage, question, candidates, exclusions."""
    told = []
    if verdict.outcome == "chosen" and len(verdict.candidates) > 1:
        lead = verdict.candidates[0].score - verdict.candidates[1].score
        told.append(f"ahead of the next by {lead:.2f}")
    if verdict.novelty is not None:
        told.append(f"out of scope: {verdict.novelty:.2f}")
    if verdict.usage:
        told.append(usage_text(verdict.usage))
    if verdict.also:
        told.append(f"also asks for {', '.join(one_line(name) for name in verdict.also)}")
    if told:
        yield indent(styled(" · ".join(told), "default"))
    if verdict.question:
        yield indent(styled(clean(verdict.question), "default"))
    for candidate in verdict.candidates:
        line = Text(f"{candidate.score:.2f}  {one_line(candidate.agent)}")
        if candidate.evidence:
            line.append(f"  {one_line(candidate.evidence)}", style="dim")
        yield indent(line)
    yield from _exclusions(verdict.passed_over, "passed over ")
    for ignored in verdict.ignored:
        yield indent(styled(f"ignored: {one_line(ignored)}", "yellow"))


def _exclusions(exclusions: Iterable[Exclusion], before: str = "") -> Iterator[Text]:
    """Yields a line for each excluded agent with the rule."""
    for exclusion in exclusions:
        line = styled(before, "dim")
        line.append(one_line(exclusion.agent), style="default")
        line.append(f": {one_line(exclusion.rule)}", style="yellow")
        if exclusion.detail:
            line.append(f" ({one_line(exclusion.detail)})", style="dim")
        yield indent(line)


def content_lines(content: Content, *, thinking: bool = False) -> Iterator[Text]:
    """The content's parts as lines, with control characters removed. Line breaks in text are kept.

    Args:
        thinking: whether to include the model's thoughts.
    """
    for part in content.parts:
        if isinstance(part, TextPart):
            yield Text(clean(part.text))
        elif isinstance(part, DataPart):
            yield styled(one_line(json.dumps(part.data, ensure_ascii=False)), "dim")
        elif isinstance(part, ArtifactPart):
            version = f", version {part.version}" if part.version else ""
            yield styled(one_line(f"[artifact {part.name}{version}]"), "dim")
        elif isinstance(part, BlobPart):
            yield styled(one_line(f"[{part.mime_type}, {len(part.data):,} bytes]"), "dim")
        elif isinstance(part, ToolCallPart):
            yield styled(one_line(f"[calls {part.tool} {json.dumps(part.arguments, ensure_ascii=False)}]", 500), "dim")
        elif isinstance(part, ToolResultPart):
            failed = f", failed: {json.dumps(part.result, ensure_ascii=False)}" if part.failed else ""
            yield styled(one_line(f"[result of {part.tool or part.call_id}{failed}]", 500), "dim")
        elif isinstance(part, ThinkingPart) and thinking and part.text:
            yield styled(f"[thinks] {clean(part.text)}", "dim italic")


def cut_off_lines(event: Event) -> Iterator[Text]:
    """States that an answer was cut off, and why; nothing for a complete one."""
    why = event.actions.cut_off
    if why is not None:
        limit = {"tokens": "the model ran into its limit of tokens", "parts": "it has more parts than limits.parts allows"}
        yield styled(one_line(f"(cut off: {limit.get(why, why)})"), "yellow")


def starts_attempt(event: Event) -> bool:
    """Whether the event starts a new attempt after a process died. A user's rewind does not."""
    return event.actions.rewind is not None and event.attempt > 1


def attempt_line(event: Event) -> Text:
    """The line for an event that starts a new attempt."""
    return styled(f"↻ attempt {event.attempt}: the process of attempt {event.attempt - 1} stopped before the end", "yellow")


HANGING_INDENT = 2
MIN_ROOM = 20
"""Minimum width of a continuation line; with less room it is not indented."""
_WORD = re.compile(r"\s*\S+\s*")
_HEAD = re.compile(r"\s*(?:\d+(?:\.|  )\s*|→ )?")


def wrap(lines: Iterable[Text], width: int | None) -> Iterator[Text]:
    """Wraps the lines to the width. Continuation lines are indented to the line's first word, after a number, an arrow or
    spaces.

    Args:
        width: None = lines are not wrapped.
    """
    for line in lines:
        if width is None:
            yield line
            continue
        for part in line.split("\n", allow_blank=True):
            yield from _wrap_line(part, width)


def break_text(text: Text, room: int) -> list[Text]:
    """Breaks the text between words into pieces of that width.

    A word wider than the room stays whole, because it may be a name to copy. Only text without spaces, such as Chinese, is
    broken anywhere.
    """
    found = list(text.divide(list(_breaks(text.plain, max(room, 1))))) if text.plain else []
    for piece in found:
        piece.rstrip()
    return found


def _breaks(text: str, room: int) -> Iterator[int]:
    """Yields the positions at which the text is broken."""
    used = 0
    for word in _WORD.finditer(text):
        taken = cell_len(word[0].rstrip())
        if used and used + taken > room:
            yield word.start()
            used = 0
        if taken > room and taken > len(word[0].rstrip()):
            *full, last = chop_cells(word[0], room)
            at = word.start()
            for part in full:
                at += len(part)
                yield at
            used = cell_len(last)
        else:
            used += cell_len(word[0])


def _wrap_line(line: Text, width: int) -> Iterator[Text]:
    """Yields the line in pieces of at most `width` cells; later pieces are indented."""
    if cell_len(line.plain) <= width:
        yield line
        return
    head = _HEAD.match(line.plain)
    assert head is not None
    hang = len(head[0]) if head[0].strip() else len(head[0]) + HANGING_INDENT
    if width - hang < MIN_ROOM:
        yield from break_text(line, width)
        return
    first, rest = line.divide([hang])
    for number, piece in enumerate(break_text(rest, width - cell_len(first.plain))):
        yield first.append_text(piece) if number == 0 else Text(" " * hang).append_text(piece)


MIN_LAST_COLUMN = 24
"""Minimum width of the last column; with less room it goes below the other columns."""
_BELOW_INDENT = 3
_MIN_VALUE = 12


def fit_table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], width: int | None, *, right: Iterable[str] = ()
) -> Iterator[Text]:
    """A table like `table`, fitted to the width.

    The last column is wrapped, or placed below its row if there is little room. If even the other columns are too wide, each
    row becomes a list of names and values.

    Args:
        width: None = unlimited.
        right: the columns that are aligned right.
    """
    cells = list(rows)
    whole = list(table(columns, cells, right=right))
    if width is None or all(cell_len(line.plain) <= width for line in whole):
        yield from whole
        return
    others = list(table(columns[:-1], [row[:-1] for row in cells], right=right))
    last = [styled(columns[-1], "dim"), *(Text(row[-1]) if isinstance(row[-1], str) else row[-1] for row in cells)]
    taken = max(cell_len(line.plain) for line in others) + 2
    if taken - 2 > width:
        yield from _rows_as_lists(columns, cells, width)
    elif width - taken >= MIN_LAST_COLUMN:
        yield from _last_column_beside(others, last, taken, width - taken)
    else:
        yield from _last_column_below(others, last, width - _BELOW_INDENT)


def _last_column_beside(others: Sequence[Text], last: Sequence[Text], taken: int, room: int) -> Iterator[Text]:
    for line, text in zip(others, last, strict=True):
        broken = break_text(text, room) or [Text()]
        line.append(" " * (taken - cell_len(line.plain))).append_text(broken[0]).rstrip()
        yield line
        yield from (indent(piece, taken) for piece in broken[1:])


def _last_column_below(others: Sequence[Text], last: Sequence[Text], room: int) -> Iterator[Text]:
    for line, text in zip(others, last, strict=True):
        yield line
        yield from (indent(piece, _BELOW_INDENT) for piece in break_text(text, room))


def _rows_as_lists(columns: Sequence[str], rows: Sequence[Sequence[str | Text]], width: int) -> Iterator[Text]:
    """Each row as lines of a column's name and value, with a blank line between rows. Empty values are omitted.

    The value of a column without a name is put before the next column's value.
    """
    names = max(map(len, columns))
    beside = width - names - 2 >= _MIN_VALUE
    for number, row in enumerate(rows):
        if number:
            yield Text()
        before = Text()
        for name, cell in zip(columns, row, strict=True):
            value = before + (Text(cell) if isinstance(cell, str) else cell)
            before = Text() if name else value.append(" " if value.plain else "")
            if name and value.plain:
                yield from _named_value(styled(name, "dim"), value, names + 2 if beside else 0, width)


def _named_value(name: Text, value: Text, margin: int, width: int) -> Iterator[Text]:
    """Yields a value after its name, or below the name when there is no margin."""
    if not margin:
        yield name
        yield from (indent(piece, _BELOW_INDENT) for piece in break_text(value, width - _BELOW_INDENT))
        return
    name.append(" " * (margin - len(name.plain)))
    for number, piece in enumerate(break_text(value, width - margin)):
        yield name.append_text(piece) if number == 0 else indent(piece, margin)
