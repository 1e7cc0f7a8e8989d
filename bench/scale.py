"""Scaling to very many agents: routing time without the encoding, fitting time and memory; patterns separately.

Agents, examples and messages consist of seeded random words. Their vectors are sums of word vectors and cost almost nothing. A
real encoder's time comes on top and grows with the number of texts, not of agents. Each measurement runs in a separate process
to measure its peak memory.
"""

import asyncio
import functools
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.measure import Figure, progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from turnwise.facts.tree import AgentTree
    from turnwise.selection.meaning import Meaning

AGENTS, EXAMPLES = 10_000, 20
ROUTE_MS, FIT_SECONDS, MEMORY_GB = 10.0, 120.0, 0.7
SERVED_SECONDS = 0.5
PATTERN_MS = {1_000: 0.1, 10_000: 1.5}
_MESSAGES = 1_000
_DIMENSIONS = 384
_SYLLABLES = [
    f"{start}{vowel}" for start in ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "st") for vowel in "aeiou"
]
_REQUESTS = (
    "i want to {verb} my {noun}",
    "can you {verb} the {noun} for me",
    "please {verb} a {noun} {when}",
    "how do i {verb} my {noun}",
    "the {noun} does not {verb} any more",
    "where can i {verb} this {noun} {when}",
    "is there a way to {verb} two {noun}s at once",
    "{noun}: {verb} it {when}",
)
_WHEN = ("today", "tomorrow", "next week", "before friday", "as soon as possible", "this evening")


def scale() -> list[Figure]:
    """The figures with their bounds."""
    works = ["agents", *(f"patterns {count}" for count in PATTERN_MS)]
    with progress("Very many agents", len(works)) as step:
        found = {}
        for work in works:
            found[work] = _in_a_process(work)
            step(work)
    agents = found["agents"]
    size = f"{AGENTS:,} agents × {EXAMPLES} examples"
    return [
        at_most(f"route beyond the encoding, ms p50, {size}", agents["p50"], ROUTE_MS),
        Figure("the same, p99", f"{agents['p99']:.2f}"),
        Figure("the same, CPU of one", f"{agents['cpu']:.2f}"),
        at_most(f"fit beyond the encoding, s, {size}", agents["fit"], FIT_SECONDS),
        Figure("ready by nearest examples beyond the encoding, s", f"{agents['ready']:.2f}"),
        at_most("memory at its peak, GB", agents["gigabytes"], MEMORY_GB),
        at_most("a changed phrase is served, s", agents["served"], SERVED_SECONDS),
        Figure("the same, CPU before heads", f"{agents['served_cpu']:.3f}"),
        at_most("memory at its peak, also while changed agents get heads, GB", agents["swap_gigabytes"], MEMORY_GB),
        Figure("right of messages never seen (words made up)", f"{100 * agents['right']:.1f} %"),
        *(
            at_most(f"patterns, ms p50, {count:,} agents × 3", found[f"patterns {count}"]["p50"], bound)
            for count, bound in PATTERN_MS.items()
        ),
    ]


class Directions:
    """An encoder without a model: a text's vector is the sum of its words' vectors. Measures its own time."""

    fingerprint, dimensions, is_local = "bench:directions", _DIMENSIONS, True

    def __init__(self) -> None:
        self.seconds = 0.0

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        import numpy as np

        began = time.perf_counter()
        vectors = np.array([sum(map(_direction, text.split())) + _direction("") for text in texts], np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        self.seconds += time.perf_counter() - began
        return vectors


@functools.cache
def _direction(word: str) -> "NDArray[np.float32]":
    import numpy as np

    seed = int.from_bytes(word.encode(), "little") % (1 << 62)
    weight = 0.3 if word in _PLAIN else 1.0  # encoders give little weight to words that every request has
    return (weight * np.random.default_rng(seed).standard_normal(_DIMENSIONS)).astype(np.float32)


_PLAIN = frozenset(word for text in (*_REQUESTS, *_WHEN) for word in text.split()) | {""}


def made_up(agents: int, examples: int, messages: int) -> "tuple[AgentTree, list[tuple[str, str]]]":
    """A tree of that many agents, and messages that are no example of any agent, each with its agent."""
    from turnwise.facts.tree import AgentCard, AgentTree

    generator = random.Random(1)
    words = sorted({"".join(generator.choices(_SYLLABLES, k=generator.randint(2, 4))) for _ in range(2 * agents)})
    generator.shuffle(words)
    cards, unseen = [AgentCard(name="root")], []
    for number in range(agents):
        nouns, verbs = generator.sample(words, 3), generator.sample(words, 3)
        texts: dict[str, None] = {}
        while len(texts) <= examples:
            request = generator.choice(_REQUESTS)
            texts[request.format(verb=generator.choice(verbs), noun=generator.choice(nouns), when=generator.choice(_WHEN))] = (
                None
            )
        *own, last = texts
        cards.append(AgentCard(name=f"agent {number}", parent="root", examples=tuple(own)))
        unseen.append((last, f"agent {number}"))
    return AgentTree(cards), generator.sample(unseen, messages)


async def _agents() -> dict[str, float]:
    from turnwise.selection.meaning import Meaning

    tree, messages = made_up(AGENTS, EXAMPLES, _MESSAGES)
    eligible = tuple(card.name for card in tree if card.parent)
    encoder = Directions()
    meaning = Meaning(tree, encoder)
    began = time.perf_counter()
    meaning.prepare()
    ready = time.perf_counter() - began - encoder.seconds
    if not await meaning.fitted():
        raise RuntimeError("The matcher was not fitted.")
    fit = time.perf_counter() - began - encoder.seconds
    fitted, cpu, right = await _routes(meaning, encoder, messages, eligible)
    peak, quick = peak_gigabytes(), sorted(fitted)
    served = await _change(meaning)
    return {
        "p50": statistics.median(quick),
        "p99": quick[len(quick) * 99 // 100],
        "cpu": cpu,
        "fit": fit,
        "ready": ready,
        "gigabytes": peak,
        "right": right,
        **served,
    }


async def _change(meaning: "Meaning") -> dict[str, float]:
    """Changes a phrase of one agent: the cost until it is served, and the memory until its heads are fitted."""
    from turnwise.facts.tree import AgentTree

    cards = list(meaning.tree)
    text = "please do the change"
    cards[1] = cards[1].replace(examples=(*cards[1].examples[:-1], text))
    wall, cpu = time.perf_counter(), time.thread_time()
    changed = meaning.changed(AgentTree(cards))
    changed.prepare()
    wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
    (reading,) = await changed.read([text])
    if reading.match.ranked(1)[0][0] != cards[1].name or not await changed.fitted():
        raise RuntimeError("The change is not served.")
    return {"served": wall, "served_cpu": cpu, "swap_gigabytes": peak_gigabytes()}


def peak_gigabytes() -> float:
    """Returns the most memory that this process had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9


async def _routes(
    meaning: "Meaning", encoder: Directions, messages: Sequence[tuple[str, str]], eligible: tuple[str, ...]
) -> tuple[list[float], float, float]:
    """Milliseconds of each route without its encoding, their mean CPU time, and the share of right decisions."""
    costs, right = [], 0
    cpu = time.thread_time() - encoder.seconds
    for text, agent in messages:
        began, encoding = time.perf_counter(), encoder.seconds
        (reading,) = await meaning.read([text])
        best = reading.match.among(eligible).ranked(3)
        costs.append(1_000 * (time.perf_counter() - began - (encoder.seconds - encoding)))
        right += best[0][0] == agent
    cpu = time.thread_time() - encoder.seconds - cpu
    return costs[10:], 1_000 * cpu / len(messages), right / len(messages)


def _patterns(agents: int) -> dict[str, float]:
    """Measures patterns of two or three words each, on new messages."""
    from turnwise.matching.patterns import PatternIndex

    tree, messages = made_up(agents, 3, min(agents, _MESSAGES))
    patterns = []
    for card in tree:
        for text in card.examples:
            words = [word for word in text.replace(":", "").split() if word not in _PLAIN]
            patterns.append((card.name, r"\b" + r"\b.*\b".join(words[:2]), 0.8))
    index = PatternIndex(patterns)
    costs = []
    for text, _ in messages:
        began = time.perf_counter()
        index.match(text)
        costs.append(1_000 * (time.perf_counter() - began))
    return {"p50": statistics.median(costs)}


def _in_a_process(work: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.scale", *work.split()]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


def at_most(name: str, value: float, bound: float) -> Figure:
    """Returns a figure that has to stay within a bound."""
    return Figure(name, f"{value:.3f}" if bound < 2 else f"{value:.2f}", "", f"≤ {bound:g}", value <= bound)


if __name__ == "__main__":
    _, _work, *_arguments = sys.argv
    print(json.dumps(asyncio.run(_agents()) if _work == "agents" else _patterns(int(_arguments[0]))))
