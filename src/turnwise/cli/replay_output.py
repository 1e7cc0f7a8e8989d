"""A replay as text for the terminal."""

from collections.abc import Iterator

from rich.text import Text

from turnwise.cli.eval_output import percent
from turnwise.cli.rendering import styled
from turnwise.cli.terminal import one_line
from turnwise.cli.text_layout import fit_table
from turnwise.learning.replay import OBSTACLES, ReplayResult

FLIPS_SHOWN, _EXAMPLE = 20, 60


def result_lines(found: ReplayResult, width: int | None = None) -> Iterator[Text]:
    """The lines of a replay: the share that changes, labelled accuracy, the changes, and what could not be decided again."""
    yield _headline(found)
    yield styled(f"policy {one_line(found.policy)} ({found.fingerprint})", "dim")
    yield from _label_lines(found)
    if found.other_inputs:
        note = f"{found.other_inputs:,} were recorded under another policy, other agents or other examples"
        yield styled(note, "dim")
    yield from _changes(found, width)


def trial_lines(found: ReplayResult, width: int | None = None) -> Iterator[Text]:
    """The lines of a trial's decisions, as those of a replay."""
    yield _headline(found)
    yield from _label_lines(found)
    yield from _changes(found, width)


def _headline(found: ReplayResult) -> Text:
    changed = found.replayed - found.equal
    return styled(f"{changed:,} of {found.replayed:,} decisions change ({percent(found.share(changed))})", "bold")


def _label_lines(found: ReplayResult) -> Iterator[Text]:
    if found.labelled:
        before, after = percent(found.accuracy(found.right_before)), percent(found.accuracy(found.right_after))
        colour = "green" if (found.gain or 0) >= 0 else "red"
        points = f"{100 * (found.gain or 0):+.1f} points"
        yield styled(f"right: {before} before, {after} now ({points}), of {found.labelled:,} labelled decisions", colour)


def _changes(found: ReplayResult, width: int | None) -> Iterator[Text]:
    """The lines of what could not be decided again, and of changed decisions."""
    for reason, count in found.obstacles.items():
        yield styled(f"not decided again: {count:,} ({OBSTACLES[reason]})", "yellow")
    if found.flips:
        yield Text()
        yield from _flips(found, width)
    if (more := len(found.flips) - FLIPS_SHOWN) > 0:
        yield styled(f"and {more} more {'pair' if more == 1 else 'pairs'}; --json has all", "dim")


def _flips(found: ReplayResult, width: int | None) -> Iterator[Text]:
    """The table of changed decisions by old and new agent."""
    columns = ("decisions", "from", "to", "now right", "now wrong", "a message")
    rows = [
        (
            f"{flip.count:,}",
            one_line(flip.before),
            one_line(flip.after),
            f"{flip.right:,}",
            f"{flip.wrong:,}",
            one_line(flip.examples[0], _EXAMPLE) if flip.examples else "",
        )
        for flip in found.flips[:FLIPS_SHOWN]
    ]
    return fit_table(columns, rows, width, right=("decisions", "now right", "now wrong"))
