"""Lint: finds problems in the agents' cards before users do (behaviour E6)."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.learning.lint_examples import Finding, ordered
from turnwise.learning.lint_patterns import lint_patterns
from turnwise.selection.eligibility import eligible
from turnwise.selection.phrases import by_examples_alone

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEW = 5
_SHOWN = 5


def texts_of(tree: AgentTree) -> list[str]:
    """Returns the texts that lint compares by meaning: all examples, then all descriptions, in the tree's order."""
    return [*(text for _, text in _examples(tree)), *_descriptions(tree).values()]


def lint(
    tree: AgentTree,
    vectors: "NDArray[np.float32] | None" = None,
    *,
    default: str | None = None,
    general: str | None = None,
) -> list[Finding]:
    """Returns all findings, errors first.

    Args:
        tree: The agents.
        vectors: One row of length 1 for each of `texts_of`; None = skip the checks that need them.
        default: The default agent; None = the root.
        general: The policy's agent for small talk; None = the default agent.

    Raises:
        PatternError: RE2 rejects a pattern.
    """
    from turnwise.learning.lint_examples import Example, lint_descriptions, lint_duplicates, lint_neighbours

    talks = general or default
    default = default or tree.root
    pairs = [Example(*pair) for pair in _examples(tree)]
    found = [*_unreachable(tree, default), *_wordless(tree, default), *_small_talk(tree, talks)]
    found += lint_patterns(tree, {card.name: _texts(card) for card in tree if _texts(card)})
    found += lint_duplicates(pairs)
    if vectors is not None:
        found += lint_neighbours(pairs, vectors[: len(pairs)])
        found += lint_descriptions(_descriptions(tree), vectors[len(pairs) :])
    return ordered([*found, *_few_examples(tree, default), *_unused_words(tree, default)])


def _texts(card: AgentCard) -> list[str]:
    return [*card.examples, *(text for skill in card.skills for text in skill.examples)]


def _examples(tree: AgentTree) -> Iterator[tuple[str, str]]:
    for card in tree:
        for text in _texts(card):
            yield card.name, text


def _descriptions(tree: AgentTree) -> dict[str, str]:
    """Returns the descriptions of agents that compete for messages. Supervisors are left out: they describe their children."""
    return {
        card.name: card.description
        for card in tree
        if card.description.strip() and card.routable and (card.is_composite or not tree.children(card.name))
    }


def _unreachable(tree: AgentTree, default: str) -> Iterator[Finding]:
    """Finds enabled agents that can take no message from any caller."""
    everyone = {role for card in tree for role in card.roles}
    rules = eligible(tree, roles=everyone).excluded
    for exclusion in rules:
        card = tree.card(exclusion.agent)
        if exclusion.rule != "disabled" or not card.enabled:
            continue
        yield Finding(
            "agent.unreachable",
            "error",
            (card.name,),
            f"Nobody can reach {card.name}: {exclusion.detail}.",
            (" → ".join(reversed(tree.chain(card.name))),),
            "Enable the agent above it, or move or disable this one.",
        )
    if default in tree and not tree.reachable(default, everyone):
        yield Finding(
            "agent.unreachable",
            "error",
            (default,),
            f"The default agent {default} cannot be reached, so messages that no agent fits have nobody.",
            (),
            "Enable it, or name another default.",
        )


def _wordless(tree: AgentTree, default: str) -> Iterator[Finding]:
    """Finds agents that selectors know by name only."""
    for name in eligible(tree, roles={role for card in tree for role in card.roles}).names:
        card = tree.card(name)
        active = any(pattern.active for pattern in card.patterns)
        supervises = bool(tree.children(name)) and not card.is_composite
        if name == default or supervises or active or card.description.strip() or card.skills or card.examples:
            continue
        yield Finding(
            "agent.wordless",
            "error",
            (name,),
            f"{name} has no examples, no description and no patterns: only its name says when it should answer.",
            (),
            "Give it a description and a few example requests.",
        )


def _small_talk(tree: AgentTree, general: str | None) -> Iterator[Finding]:
    """Finds composite agents that small talk would run, and small talk that goes to a root not configured for it."""
    routed = eligible(tree, roles={role for card in tree for role in card.roles}).names
    whole = [name for name in routed if tree.card(name).is_composite]
    taker = general or tree.root
    fix = "Name an agent for small talk: `general` of the stage `contextual`, or `default` of the policy."
    if taker in whole:
        card = tree.card(taker)
        problem = f"Small talk goes to {taker}, a {card.kind} agent: each 'thanks' runs all of it."
        yield Finding("agent.general", "warning", (taker,), problem, (), fix)
    elif whole and general is None:
        ended = (
            f"{_several(whole)} {'is' if len(whole) == 1 else 'are'} over with {'its' if len(whole) == 1 else 'their'} answer"
        )
        problem = f"{ended}, and small talk after that goes to the root {taker}: the policy names no general agent."
        yield Finding("agent.general", "note", tuple(whole), problem, (), f"{fix} That may be {taker}.")


def _few_examples(tree: AgentTree, default: str) -> Iterator[Finding]:
    """Finds agents with few or no examples. The default agent is skipped, since its examples are small talk."""
    counts = {card.name: len(_texts(card)) for card in tree}
    routed = eligible(tree, roles={role for card in tree for role in card.roles}).names
    leaves = [name for name in routed if name != default and (tree.card(name).is_composite or not tree.children(name))]
    without = [
        name for name in leaves if not counts[name] and (tree.card(name).description.strip() or tree.card(name).patterns)
    ]
    few = [name for name in leaves if 0 < counts[name] < FEW]
    if without:
        yield Finding(
            "example.none",
            "warning" if any(counts[name] for name in leaves) else "note",
            tuple(without),
            f"{_agents(without)} no examples.",
            (),
            "Five example requests each, in users' words, tell more than any description.",
        )
    if few:
        yield Finding(
            "example.few",
            "note",
            tuple(few),
            f"{_agents(few)} fewer than {FEW} examples.",
            tuple(f"{name}: {counts[name]}" for name in few[:_SHOWN]),
            "Add examples that differ from each other; labelled decisions of real users are the best.",
        )


def _unused_words(tree: AgentTree, default: str) -> Iterator[Finding]:
    """Finds agents with examples or a description that do not affect routing."""
    rules = eligible(tree, roles={role for card in tree for role in card.roles}).rules
    quiet = by_examples_alone(tree, default)
    for card in tree:
        examples = _texts(card)
        if examples and rules.get(card.name) == "not_routable":
            yield Finding(
                "example.unused",
                "note",
                (card.name,),
                f"The examples of {card.name} are not used for routing: its card says `routable: false`.",
                tuple(examples[:_SHOWN]),
                "Remove them, or let messages be routed to it.",
            )
        elif not examples and card.name in quiet and (card.description.strip() or card.skills) and card.name not in rules:
            reason = "it takes what no other agent does" if card.name == default else "other agents stand below it"
            yield Finding(
                "description.unused",
                "note",
                (card.name,),
                f"The description of {card.name} is not used for routing: {reason}, so only its examples would count.",
                tuple(text for text in (card.description, *(skill.name for skill in card.skills)) if text.strip())[:_SHOWN],
                "Give it example requests if messages should be routed to it for what they say.",
            )


def _agents(names: Sequence[str]) -> str:
    return f"{_several(names)} {'has' if len(names) == 1 else 'have'}"


def _several(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
