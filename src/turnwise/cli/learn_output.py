"""The result of learning, as text for the terminal, as JSON and as YAML."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml
from pydantic import JsonValue
from rich.text import Text

from turnwise.cli.eval_output import percent
from turnwise.cli.rendering import styled
from turnwise.cli.terminal import one_line
from turnwise.config.learned_drafts import StoredDrafts
from turnwise.facts.callers import ApiKey
from turnwise.learning.draft_gain import WORN, Difference
from turnwise.learning.learn import Learned
from turnwise.learning.proposals import Proposal

AGENTS_SHOWN, EXAMPLES_SHOWN, _EXAMPLE = 12, 5, 80


def learned_lines(found: Learned) -> Iterator[Text]:
    """The lines of the result: the gain with its interval, the proposed changes, and the gain of each agent."""
    if found.proposal is None:
        yield styled("Nothing is proposed.", "bold yellow")
        yield Text(found.refusal)
    else:
        yield styled(f"{found.proposal.size} changes are proposed.", "bold green")
    left_out = [f"{count:,} left out: {reason}" for reason, count in found.left_out.items()]
    numbers = f"{found.labels:,} labels, {found.learned_from:,} to learn from, {found.judged_by:,} later ones to judge with"
    yield styled("; ".join([numbers, *left_out]), "dim")
    if found.gain is not None:
        right = f"right: {percent(found.accuracy_before)} before, {percent(found.accuracy_after)} after"
        yield Text(f"{right} ({points(found.gain)})")
    if found.proposal is not None:
        yield from _examples(found.proposal)
        yield from _numbers(found.proposal)
    yield from _agents(found)


def capped_lines(found: Learned, keys: Mapping[str, ApiKey], trusted: Sequence[str] = ()) -> Iterator[Text]:
    """The lines about credentials whose labels are over the cap although several users gave them, with what to do.

    Args:
        found: The result.
        keys: The app's keys by the digest of their callers.
        trusted: The ids of the keys that are trusted already.
    """
    for each in found.capped_credentials:
        key = keys.get(each.digest)
        labels = f"{each.labels:,} of the labels over the cap are by {each.users:,} users"
        if key is None:
            yield Text(f"{labels} of one credential that is no key of this app. It counts as one source.")
        else:
            yield Text(f"{labels} of key {key.id} ({one_line(key.name)}). A key counts as one source, whatever users it names.")
            options = " ".join(f"--trust {id_}" for id_ in (*trusted, key.id))
            yield styled(f"If its server authenticates these users: turnwise learn {options}", "bold")


def capped_data(found: Learned, keys: Mapping[str, ApiKey]) -> dict[str, JsonValue]:
    """The same credentials, each with its key; null for one that is no key of the app."""
    return {
        "capped_credentials": [
            {
                "key": keys[each.digest].id if each.digest in keys else None,
                "name": keys[each.digest].name if each.digest in keys else None,
                "labels": each.labels,
                "users": each.users,
            }
            for each in found.capped_credentials
        ]
    }


def worn_lines(judged: int | None) -> Iterator[Text]:
    """The line that says how often the later messages have judged, if that is too often."""
    if judged is not None and judged > WORN:
        yield styled(f"The later messages have judged {judged} drafts and are worn: label newer decisions.", "bold yellow")


def worn_data(judged: int | None) -> dict[str, JsonValue]:
    """How often the later messages have judged; null if they have not, or if the store keeps no count."""
    return {"drafts_judged": judged, "worn": judged is not None and judged > WORN}


def drafts_lines(drafts: StoredDrafts | None) -> Iterator[Text]:
    """The stored drafts, with what to do next."""
    if drafts is None:
        return
    yield Text()
    for each in drafts.stored:
        yield Text(f"{each.what} {one_line(each.name)}: version {each.version}, draft")
    for each in drafts.unchanged:
        yield styled(f"{each.what} {one_line(each.name)}: version {each.version}, the same draft as before", "dim")
    yield styled("Compare with `turnwise agents diff`, serve with `turnwise agents activate`.", "dim")


def drafts_data(drafts: StoredDrafts | None) -> list[JsonValue]:
    """The drafts, with whether they are new."""
    groups = [] if drafts is None else [(True, drafts.stored), (False, drafts.unchanged)]
    return [
        {"kind": each.what, "name": each.name, "version": each.version, "new": new} for new, found in groups for each in found
    ]


def proposal_yaml(proposal: Proposal) -> str:
    """The proposed changes as YAML: by agent, and of the policy."""
    agents: dict[str, dict[str, Any]] = {name: {} for name in proposal.agents}
    for name, examples in proposal.add.items():
        agents[name]["learned"] = [each.model_dump(mode="json", exclude_defaults=True) for each in examples]
    for name, texts in proposal.drop.items():
        agents[name]["drop_examples"] = list(texts)
    for name, confidences in proposal.patterns.items():
        agents[name]["patterns"] = dict(confidences)
    data: dict[str, Any] = {"agents": agents} if agents else {}
    if proposal.options:
        data["policy"] = [
            {key: value for key, value in each._asdict().items() if value is not None} for each in proposal.options
        ]
    return yaml.safe_dump(data, allow_unicode=True, sort_keys=False, width=100)


def points(found: Difference) -> str:
    """A change of accuracy in points, with its interval."""
    return f"{100 * found.mean:+.1f} points, between {100 * found.low:+.1f} and {100 * found.high:+.1f}"


def _numbers(proposal: Proposal) -> Iterator[Text]:
    """The proposed confidences of patterns and options of stages."""
    if not proposal.patterns and not proposal.options:
        return
    yield Text()
    for agent, found in proposal.patterns.items():
        for regex, confidence in found.items():
            yield Text(f"{one_line(agent)}: pattern {one_line(regex, _EXAMPLE)} has confidence {confidence:g}")
    for each in proposal.options:
        place = each.stage if each.segment is None else f"{each.segment}, {each.stage}"
        yield Text(f"policy: {one_line(place)}.{each.option} = {each.value:g}")


def _examples(proposal: Proposal) -> Iterator[Text]:
    """The proposed and the dropped examples of each agent."""
    added = {name: tuple(each.text for each in examples) for name, examples in proposal.add.items()}
    for sign, changes, colour in (("+", added, "green"), ("-", proposal.drop, "red")):
        for agent, texts in changes.items():
            yield Text()
            yield styled(one_line(agent), "bold")
            for text in texts[:EXAMPLES_SHOWN]:
                yield styled(f"  {sign} {one_line(text, _EXAMPLE)}", colour)
            if len(texts) > EXAMPLES_SHOWN:
                yield styled(f"  {sign} and {len(texts) - EXAMPLES_SHOWN} more", "dim")


def _agents(found: Learned) -> Iterator[Text]:
    """The agents for which more or fewer messages would be right, the largest changes first."""
    changed = [(name, each) for name, each in (found.by_agent or {}).items() if each.mean]
    if not changed:
        return
    yield Text()
    yield styled("agents whose messages change", "bold")
    for name, each in sorted(changed, key=lambda item: -abs(item[1].mean * item[1].decisions))[:AGENTS_SHOWN]:
        yield Text(f"  {one_line(name)}: {points(each)} ({each.decisions} messages)")
