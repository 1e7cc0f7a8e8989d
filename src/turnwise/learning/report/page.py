"""The complete report page."""

from collections.abc import Sequence
from pathlib import Path

from turnwise.learning.evaluation_result import Evaluation, Subject
from turnwise.learning.outcomes import Outcome
from turnwise.learning.report import curves, sections
from turnwise.learning.report.heatmap import AGENTS, heat_map
from turnwise.learning.report.markup import Child, Markup, joined, tag

STYLE = Path(__file__).with_name("page.css")


def page(found: Evaluation) -> str:
    """Returns the evaluation as a self-contained HTML document: no scripts, fonts or images from elsewhere."""
    return document(f"{sections.percent(found.measures.accuracy)} right · Turnwise evaluation", _body(found))


def document(title: str, body: Markup) -> str:
    """Returns a self-contained HTML document in the style of the reports."""
    head = tag(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        tag("title", title),
        tag("style", Markup(STYLE.read_text("utf-8"))),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", body), lang="en") + "\n"


def _body(found: Evaluation) -> Markup:
    """The page's content."""
    scored = [outcome for outcome in found.outcomes if outcome.scored]
    in_scope = [outcome for outcome in scored if outcome.expected is not None]
    sections: list[Child] = [tag("header", tag("h1", "Evaluation"), *_about(found.subject))]
    sections.append(sections.tiles(found.measures))
    plots: list[Child] = []
    if in_scope:
        note = "On the dashed line, 80 % of the decisions with a confidence of 80 % are right. Grey: number of decisions."
        plots.append(figure("Confidence calibration", curves.reliability_plot(in_scope), note))
    if scored:
        note = "Precision if only the most confident decisions were accepted. The dot is the policy as it is."
        plots.append(figure("Coverage and precision", curves.coverage_plot(scored), note))
    turns = curves.turns_plot(scored)
    if turns:
        plots.append(figure("Accuracy by turn", turns, "The share of right decisions by the turn of the dialogue."))
    if found.outcomes:
        times = [outcome.ms for outcome in found.outcomes]
        plots.append(figure("Decision latency", curves.latency_plot(times), "On one thread of this machine."))
    plots.append(tag("figure", tag("h2", "Decisions by method"), sections.methods(found.measures)))
    plots += [tag("figure", tag("h2", f"By {key}"), sections.groups(key, those)) for key, those in found.measures.by.items()]
    sections.append(tag("div", *plots, class_="plots"))
    sections += _mistakes(found, scored)
    note = "The documentation explains the measures, under evaluation."
    sections.append(tag("footer", note))
    return tag("main", *sections)


def _mistakes(found: Evaluation, scored: Sequence[Outcome]) -> list[Child]:
    """The sections on mistakes: confusion map, most frequent pairs, all agents."""
    drawn = heat_map(scored)
    if drawn is None:
        return [section("Mistakes", tag("p", "No mistakes."))]
    note = (
        f"The {AGENTS} agents with the most mistakes. Rows: expected agent. Columns: chosen agent. "
        "Red with a number: mistakes; green: right. Agents that are often confused are next to each other."
    )
    return [
        section("Confusion map", tag("p", note), tag("div", drawn, class_="scroll")),
        section("Most frequent mistakes", sections.confusions(found.measures.confusions, scored)),
        tag("section", tag("details", tag("summary", "All agents, worst first"), sections.agents(scored))),
    ]


def _about(subject: Subject) -> list[Markup]:
    """The lines below the heading: agents, policy, tuning, unknown agents."""
    facts = [
        f"{subject.agents:,} agents",
        f"{subject.examples:,} examples",
        f"policy {subject.policy} ({subject.fingerprint})",
        f"dialogues continue with the {'chosen' if subject.history == 'own' else 'expected'} agent",
    ]
    lines = [tag("p", " · ".join(facts))]
    if subject.tuning is not None:
        lines.append(tag("p", f"Tuned on validation cases: {subject.tuning}"))
    if subject.unknown:
        names = ", ".join(f"{name} ({count})" for name, count in subject.unknown.items())
        lines.append(tag("p", f"Cases name agents that do not exist, which counts as wrong: {names}", class_="warning"))
    return lines


def figure(title: str, drawn: Markup, note: str) -> Markup:
    """Returns a plot with its title and a note."""
    return tag("figure", tag("h2", title), drawn, tag("figcaption", note))


def section(title: str, *parts: Child) -> Markup:
    """Returns a section with its title."""
    return tag("section", tag("h2", title), joined(*parts))
