"""Renders decisions, messages and events as styled lines for the terminal."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pydantic import JsonValue
from rich.cells import cell_len
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
