"""Recall from long conversations, and the time of a search.

`--data DIR` holds `locomo/*.jsonl`: a conversation in each line, with questions and the turns that hold the evidence. Each turn
is one entry of a user's memory. A figure is the share of a question's evidence turns among the first 5, 10 and 20 entries, as
the mean over the questions. No model is used.

The constants of `matching/recall` were compared on two conversations; the figures that count are those of the others.
"""

import asyncio
import json
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bench.measure import Figure, progress
from numpy.typing import NDArray

from turnwise.facts.memory import MemoryEntry
from turnwise.facts.sessions import SessionKey
from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.ports.memory import QueryVector
from turnwise.stores.sql.store import SqlSessionStore

COMPARED = frozenset({"42", "43"})
"""The conversations on which the constants were compared."""
FIRST = (5, 10, 20)
FLOOR, GOAL = 3.5, 8.0
"""Points above reciprocal rank fusion."""
ENTRIES, SEARCHES = 10_000, 300
WARM_P50, WARM_P99, COLD = 5.0, 15.0, 25.0
_APP = "bench"
_K1, _B, _FUSION_RANK = 1.2, 0.75, 60.0
_WORD = re.compile(r"\w+")

Scores = NDArray[np.floating[Any]]
Ranking = list[list[str]]
"""The ids of turns, best first, for each question."""


class Conversation(NamedTuple):
    """A conversation with questions about it."""

    id: str
    turns: Sequence[Mapping[str, Any]]
    questions: Sequence[Mapping[str, Any]]

    @property
    def texts(self) -> list[str]:
        return [f"{turn['speaker']}: {turn['text']}" for turn in self.turns]


class Encoded(NamedTuple):
    """The vectors of a conversation's turns and questions."""

    turns: NDArray[np.float32]
    questions: NDArray[np.float32]


def found_files(data: Path) -> list[Path]:
    return sorted((data / "locomo").glob("*.jsonl"))


def read(paths: Iterable[Path]) -> list[Conversation]:
    lines = [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines() if line]
    return [Conversation(str(line["id"]), line["turns"], line["questions"]) for line in lines]


async def memory(data: Path | None, folder: Path, *, quick: bool = False) -> list[Figure]:
    """Measures recall on the conversations of `data`, if given, and the time of a search."""
    encoder = OnnxEncoder()
    figures = []
    if data is not None:
        conversations = read(found_files(data))
        figures += await recalled(conversations[:2] if quick else conversations, encoder, folder)
    return figures + await timed(folder, ENTRIES // 10 if quick else ENTRIES)


async def recalled(conversations: Sequence[Conversation], encoder: OnnxEncoder, folder: Path) -> list[Figure]:
    """Ranks each question with Turnwise's store and with the baselines."""
    shares: dict[str, dict[str, NDArray[np.floating[Any]]]] = defaultdict(dict)
    with progress("Recall", len(conversations)) as step:
        for each in conversations:
            vectors = Encoded(encoder.encode(each.texts), encoder.encode([question["text"] for question in each.questions]))
            for name, ranking in baselines(each, vectors).items():
                shares[name][each.id] = evidence(each, ranking)
            shares["Turnwise"][each.id] = evidence(each, await ranked(each, vectors, encoder.fingerprint, folder))
            step(each.id)
    counted = [each.id for each in conversations if each.id not in COMPARED] or [each.id for each in conversations]
    figures = [_shown(f"{name}, all {len(conversations)}", by_id, list(by_id)) for name, by_id in shares.items()]
    figures += [_shown(f"{name}, {len(counted)} not compared", by_id, counted) for name, by_id in shares.items()]
    gain = _mean(shares["Turnwise"], counted) - _mean(shares["fusion"], counted)
    bound = f"≥ {FLOOR}, goal {GOAL:g}"
    return [*figures, Figure("points above fusion, mean of 5, 10 and 20", f"{gain:+.1f}", bound=bound, kept=gain >= FLOOR)]


def evidence(conversation: Conversation, ranking: Ranking) -> NDArray[np.floating[Any]]:
    """Returns each question's share of evidence among the first 5, 10 and 20."""
    rows = [
        [sum(turn in question["evidence"] for turn in found[:first]) / len(question["evidence"]) for first in FIRST]
        for question, found in zip(conversation.questions, ranking, strict=True)
    ]
    return 100 * np.array(rows)


def _shown(name: str, by_id: Mapping[str, Scores], ids: Sequence[str]) -> Figure:
    means = np.concatenate([by_id[each] for each in ids]).mean(axis=0)
    return Figure(name, f"{' / '.join(f'{mean:.1f}' for mean in means)} %   mean {means.mean():.1f}")


def _mean(by_id: Mapping[str, Scores], ids: Sequence[str]) -> float:
    return float(np.concatenate([by_id[each] for each in ids]).mean())


async def ranked(conversation: Conversation, vectors: Encoded, encoder: str, folder: Path) -> Ranking:
    """Ranks with the memory of the SQL store: every turn an entry, each session of the conversation a session."""
    store = SqlSessionStore(f"sqlite:///{folder / conversation.id}.db")
    try:
        for session in dict.fromkeys(str(turn["session"]) for turn in conversation.turns):
            await store.create(SessionKey(_APP, "u", session))
        await store.memory.remember(
            _APP, "u", [_entry(*pair) for pair in zip(conversation.turns, conversation.texts, strict=True)]
        )
        await _put(store, encoder, dict(zip(conversation.texts, vectors.turns, strict=True)))
        ranking = []
        for question, vector in zip(conversation.questions, vectors.questions, strict=True):
            found = await store.memory.search(_APP, "u", question["text"], vector=QueryVector(encoder, vector), limit=FIRST[-1])
            ranking.append([each.entry.id for each in found])
        return ranking
    finally:
        await store.close()


def _entry(turn: Mapping[str, Any], text: str) -> MemoryEntry:
    at = datetime.strptime(turn["at"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    return MemoryEntry(id=turn["id"], kind="message", text=text, session=str(turn["session"]), said_by="user", created_at=at)


async def _put(store: SqlSessionStore, encoder: str, vectors: Mapping[str, NDArray[np.float32]]) -> None:
    while texts := await store.memory.unencoded(_APP, "u", encoder):
        rows = np.stack([vectors[each.text] for each in texts])
        await store.memory.put_vectors(_APP, "u", encoder, [each.number for each in texts], rows)


def baselines(conversation: Conversation, vectors: Encoded) -> dict[str, Ranking]:
    """Ranks with plain BM25, with cosines, and with reciprocal rank fusion of both."""
    queries = [question["text"] for question in conversation.questions]
    words, meaning = bm25(conversation.texts, queries), vectors.questions @ vectors.turns.T
    fusion = 1 / (_FUSION_RANK + _ranks(words)) + 1 / (_FUSION_RANK + _ranks(meaning))
    ids = [turn["id"] for turn in conversation.turns]
    methods = {"BM25": words, "meaning": meaning, "fusion": fusion}
    return {name: [[ids[at] for at in row] for row in _order(scores)] for name, scores in methods.items()}


def bm25(texts: Sequence[str], queries: Sequence[str]) -> Scores:
    """Returns the BM25 scores of plain words in lower case; a row for each query."""
    documents = [Counter(_WORD.findall(text.lower())) for text in texts]
    lengths = np.array([sum(each.values()) for each in documents])
    postings: dict[str, dict[int, int]] = defaultdict(dict)
    for at, document in enumerate(documents):
        for word, count in document.items():
            postings[word][at] = count
    scores = np.zeros((len(queries), len(texts)))
    for row, query in zip(scores, queries, strict=True):
        for word in set(_WORD.findall(query.lower())) & postings.keys():
            places, counts = np.array(list(postings[word])), np.array(list(postings[word].values()))
            weight = math.log(1 + (len(texts) - len(places) + 0.5) / (len(places) + 0.5))
            row[places] += weight * counts * (_K1 + 1) / (counts + _K1 * (1 - _B + _B * lengths[places] / lengths.mean()))
    return scores


def _order(scores: Scores) -> NDArray[np.intp]:
    return np.argsort(-scores, axis=1, kind="stable")


def _ranks(scores: Scores) -> NDArray[np.intp]:
    return np.argsort(_order(scores), axis=1)


async def timed(folder: Path, entries: int) -> list[Figure]:
    """Times a search among many entries of a user, with vectors made up and without the query's encoding."""
    generator = np.random.default_rng(20_111)
    vectors = generator.normal(size=(entries, 384)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    words = [f"word{number}" for number in range(5_000)]
    shares = 1 / np.arange(1, len(words) + 1)
    texts = [" ".join(generator.choice(words, 15, p=shares / shares.sum())) + f" n{at}" for at in range(entries)]
    store = SqlSessionStore(f"sqlite:///{folder / 'searches'}.db")
    now = datetime.now(UTC)
    try:
        for first in range(0, entries, 500):
            rows = range(first, min(first + 500, entries))
            made = [MemoryEntry(id=str(at), text=texts[at], said_by="user", created_at=now) for at in rows]
            await store.memory.remember(_APP, "u", made)
        await _put(store, "made-up", dict(zip(texts, vectors, strict=True)))
    finally:
        await store.close()
    store = SqlSessionStore(f"sqlite:///{folder / 'searches'}.db")
    try:
        search = _searching(store, vectors, [" ".join(generator.choice(words[:2_000], 8)) for _ in range(SEARCHES)])
        cold, _ = await search(0)
        warm, cpu = np.array([await search(number) for number in range(1, SEARCHES)]).T
    finally:
        await store.close()
    p50, p99 = np.percentile(warm, [50, 99])
    what = f"ms of a search among {entries:,} entries"
    return [
        Figure(f"{what}, warm, p50", f"{p50:.1f}", bound=f"≤ {WARM_P50:g}", kept=bool(p50 <= WARM_P50)),
        Figure(f"{what}, warm, p99", f"{p99:.1f}", bound=f"≤ {WARM_P99:g}", kept=bool(p99 <= WARM_P99)),
        Figure(f"{what}, warm, CPU p50", f"{np.median(cpu):.1f}"),
        Figure(f"{what}, cold", f"{cold:.1f}", bound=f"≤ {COLD:g}", kept=bool(cold <= COLD)),
    ]


def _searching(
    store: SqlSessionStore, vectors: NDArray[np.float32], queries: Sequence[str]
) -> Callable[[int], Awaitable[tuple[float, float]]]:
    async def search(number: int) -> tuple[float, float]:
        """Returns the wall time and the CPU of a search, in milliseconds."""
        vector = QueryVector("made-up", vectors[number])
        wall, cpu = time.perf_counter(), time.process_time()
        await store.memory.search(_APP, "u", queries[number], vector=vector)
        return 1_000 * (time.perf_counter() - wall), 1_000 * (time.process_time() - cpu)

    return search


def figures(data: Path | None, folder: Path, *, quick: bool = False) -> list[Figure]:
    return asyncio.run(memory(data, folder, quick=quick))
