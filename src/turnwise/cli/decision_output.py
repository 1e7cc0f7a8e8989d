"""Shows decisions, their candidates and their policies at the terminal and as JSON data."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic_core import from_json
from rich.text import Text

from turnwise.cli.rendering import decided_by, decision_line, explanation_lines, fit_table, indent, styled, summary_line
from turnwise.cli.terminal import one_line
from turnwise.facts.selections import Candidate, Selection
from turnwise.ports.decisions import Decision, Version

_INDENT = 3
_TEXT_CHARACTERS = 60


def decision_table(found: Iterable[Decision], width: int | None = None) -> Iterator[Text]:
    """The lines of a table of decisions."""
    columns = ("time (UTC)", "user", "session", "#", "agent", "method", "sure", "label", "message")
    rows = [
        (
            each.created_at.strftime("%Y-%m-%d %H:%M:%S"),
            one_line(each.key.user),
            one_line(each.key.id),
            str(each.sequence),
            one_line(each.selection.agent),
            one_line(each.selection.method),
            f"{each.selection.confidence:.2f}",
            one_line(each.label or ""),
            one_line(each.text, _TEXT_CHARACTERS),
        )
        for each in found
    ]
    return fit_table(columns, rows, width, right=("#", "sure"))


def decision_data(decision: Decision) -> dict[str, Any]:
    """A decision as JSON data."""
    return {
        "app": decision.key.app,
        "user": decision.key.user,
        "session": decision.key.id,
        "sequence": decision.sequence,
        "invocation_id": decision.invocation_id,
        "text": decision.text,
        "created_at": decision.created_at.isoformat(),
        "label": decision.label,
        "selection": decision.selection.model_dump(mode="json"),
        "shadow": decision.shadow.model_dump(mode="json") if decision.shadow is not None else None,
    }


def decision_lines(decision: Decision) -> Iterator[Text]:
    """The lines of one decision: where and when, the message, the selected agent, and all verdicts."""
    where = f"#{decision.sequence} of session {decision.key.id} of user {decision.key.user} in {decision.key.app}"
    yield styled(one_line(f"{where} · {decision.created_at:%Y-%m-%d %H:%M:%S} UTC"), "dim")
    yield styled(one_line(decision.text), "bold")
    yield decision_line(decision.selection)
    for line in explanation_lines(decision.selection):
        yield indent(line, _INDENT)
    yield indent(summary_line(decision.selection), _INDENT)
    if decision.selection.experiment is not None:
        yield styled(one_line(f"experiment {decision.selection.experiment}, arm {decision.selection.arm}"), "dim")
    if decision.shadow is not None:
        shadow = decision.shadow
        yield styled(one_line(f"The shadow {shadow.policy} decides: {shadow.agent} ({shadow.method})"), "dim")
    if decision.label is not None:
        verb = "agrees" if decision.label == decision.selection.agent else "contradicts"
        yield styled(one_line(f"The label {verb}: {decision.label}"), "green" if verb == "agrees" else "yellow")


def policy_data(policy: Version | None) -> dict[str, Any] | None:
    """The stored policy as JSON data; None if it is not stored."""
    return {"fingerprint": policy.version, "name": policy.name, **from_json(policy.body)} if policy is not None else None


def policy_lines(selection: Selection, policy: Version | None) -> Iterator[Text]:
    """The stages of the policy with their options, as they were for this decision."""
    if policy is None:
        yield styled(one_line(f"The stages of policy {selection.policy} ({selection.fingerprint}) are not stored."), "dim")
        return
    yield styled(one_line(f"policy {policy.name} ({policy.version}), stages in order:"), "dim")
    segments: list[Mapping[str, Any]] = from_json(policy.body)["segments"]
    stages: list[Mapping[str, Any]] = next((each["stages"] for each in segments if each["segment"] == selection.segment), [])
    for number, stage in enumerate(stages, 1):
        options = ", ".join(f"{name} {_plain(value)}" for name, value in stage["options"].items())
        name = stage["name"] if stage["name"] == stage["selector"] else f"{stage['name']} ({stage['selector']})"
        yield indent(styled(one_line(f"{number}. {name}{': ' if options else ''}{options}"), "dim"), _INDENT)


def _plain(value: Any) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


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
