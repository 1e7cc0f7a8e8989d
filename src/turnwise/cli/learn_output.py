"""What was learned, as text for the terminal and as YAML."""

from collections.abc import Iterator

import yaml
from rich.text import Text

from turnwise.cli.eval_output import percent
from turnwise.cli.rendering import styled
from turnwise.cli.terminal import one_line
from turnwise.learning.intervals import Difference
from turnwise.learning.learn import Learned

AGENTS_SHOWN, EXAMPLES_SHOWN, _EXAMPLE = 12, 5, 80


def learned_lines(found: Learned) -> Iterator[Text]:
    """The lines of the result: the gain with its interval, the proposed examples, and the gain of each agent."""
    if found.proposal is None:
        yield styled("Nothing is proposed.", "bold yellow")
        yield Text(found.refusal)
    else:
        yield styled(f"{found.proposal.size} changes of examples are proposed.", "bold green")
    left_out = [f"{count:,} left out: {reason}" for reason, count in found.left_out.items()]
    numbers = f"{found.labels:,} labels, {found.learned_from:,} to learn from, {found.judged_by:,} later ones to judge with"
    yield styled("; ".join([numbers, *left_out]), "dim")
    if found.gain is not None:
        right = f"right: {percent(found.accuracy_before)} before, {percent(found.accuracy_after)} after"
        yield Text(f"{right} ({_points(found.gain)})")
    yield from _examples(found)
    yield from _agents(found)


def proposal_yaml(found: Learned) -> str:
    """The proposed examples by agent, as YAML."""
    assert found.proposal is not None
    names = sorted({*found.proposal.add, *found.proposal.drop})
    changes = {
        name: {
            key: list(texts[name])
            for key, texts in (("add_examples", found.proposal.add), ("drop_examples", found.proposal.drop))
            if name in texts
        }
        for name in names
    }
    return yaml.safe_dump({"agents": changes}, allow_unicode=True, sort_keys=False, width=100)


def _points(found: Difference) -> str:
    return f"{100 * found.mean:+.1f} points, between {100 * found.low:+.1f} and {100 * found.high:+.1f}"


def _examples(found: Learned) -> Iterator[Text]:
    if found.proposal is None:
        return
    for sign, changes, colour in (("+", found.proposal.add, "green"), ("-", found.proposal.drop, "red")):
        for agent, texts in changes.items():
            yield Text()
            yield styled(one_line(agent), "bold")
            for text in texts[:EXAMPLES_SHOWN]:
                yield styled(f"  {sign} {one_line(text, _EXAMPLE)}", colour)
            if len(texts) > EXAMPLES_SHOWN:
                yield styled(f"  {sign} and {len(texts) - EXAMPLES_SHOWN} more", "dim")


def _agents(found: Learned) -> Iterator[Text]:
    changed = [(name, each) for name, each in (found.by_agent or {}).items() if each.mean]
    if not changed:
        return
    yield Text()
    yield styled("agents whose messages change", "bold")
    for name, each in sorted(changed, key=lambda item: -abs(item[1].mean * item[1].decisions))[:AGENTS_SHOWN]:
        yield Text(f"  {one_line(name)}: {_points(each)} ({each.decisions} messages)")
