"""The page of a replay: how many decisions change, between which agents, and which of them labels call right."""

from collections import Counter
from collections.abc import Sequence

from turnwise.learning.replay import OBSTACLES
from turnwise.learning.replay_result import Flip, ReplayResult
from turnwise.learning.report.heatmap import Counts, draw_map
from turnwise.learning.report.markup import Child, Markup, quoted, tag
from turnwise.learning.report.page import document, section
from turnwise.learning.report.sections import percent, table, tile_row

PAIRS, CHARACTERS = 50, 160


def replay_page(found: ReplayResult) -> str:
    """Returns the replay as a self-contained HTML document: no scripts, fonts or images from elsewhere."""
    changed = found.replayed - found.equal
    return document(f"{changed:,} of {found.replayed:,} decisions change · Turnwise replay", _body(found, changed))


def _body(found: ReplayResult, changed: int) -> Markup:
    """The page's content."""
    about = f"policy {found.policy} ({found.fingerprint}) · {found.decisions:,} decisions"
    parts: list[Child] = [tag("header", tag("h1", "Replay"), tag("p", about)), _tiles(found, changed)]
    if found.other_inputs:
        note = f"{found.other_inputs:,} decisions were recorded under another policy, other agents or other examples."
        parts.append(tag("p", note))
    pairs: Counts = Counter({(flip.before, flip.after): flip.count for flip in found.flips})
    drawn = draw_map(pairs, "Map of changes: agent before by agent now.")
    if drawn is None:
        parts.append(section("Changes", tag("p", "No decision changes.")))
    else:
        note = "Rows: the agent that got the messages. Columns: the agent that would get them now."
        parts.append(section("Map of changes", tag("p", note), tag("div", drawn, class_="scroll")))
        parts.append(section("Changes, most frequent first", _flips(found.flips)))
    if found.obstacles:
        parts.append(section("Not decided again", _obstacles(found)))
    return tag("main", *parts)


def _tiles(found: ReplayResult, changed: int) -> Markup:
    """The row of figures."""
    labelled = f"of {found.labelled:,} labelled decisions"
    before, after = found.accuracy(found.right_before), found.accuracy(found.right_after)
    gain = None if found.gain is None else f"{100 * found.gain:+.1f}"
    return tile_row(
        [
            ("change", percent(found.share(changed)), f"{changed:,} of {found.replayed:,}"),
            ("right before", None if before is None else percent(before), labelled),
            ("right now", None if after is None else percent(after), labelled),
            ("gain", gain, "points, on labelled decisions"),
        ]
    )


def _flips(flips: Sequence[Flip]) -> Markup:
    """The table of changed decisions by pair of agents."""
    rows = [
        tag(
            "tr",
            tag("td", f"{flip.count:,}", class_="number"),
            tag("td", tag("bdi", flip.before)),
            tag("td", tag("bdi", flip.after)),
            tag("td", f"{flip.right:,}", class_="number"),
            tag("td", f"{flip.wrong:,}", class_="number"),
            tag("td", tag("ul", *(tag("li", quoted(text, CHARACTERS)) for text in flip.examples)), class_="said"),
        )
        for flip in flips[:PAIRS]
    ]
    return table(("decisions", "from", "to", "now right", "now wrong", "messages"), rows)


def _obstacles(found: ReplayResult) -> Markup:
    rows = [
        tag("tr", tag("td", f"{count:,}", class_="number"), tag("td", OBSTACLES[reason]))
        for reason, count in found.obstacles.items()
    ]
    return table(("decisions", "why"), rows)
