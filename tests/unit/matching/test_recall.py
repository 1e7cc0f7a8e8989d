"""Ranking of a memory's entries."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np

from turnwise.matching.recall import NO_SESSION, CodedVectors, Entries, Postings, Ranked, RecallQuery, rank, terms
from turnwise.testing import BagOfWordsEncoder

DAY = 86_400.0
START = datetime(2023, 5, 1, 12, tzinfo=UTC).timestamp()


class Memory:
    """Texts as a store would have them."""

    def __init__(
        self,
        texts: Sequence[str],
        *,
        sessions: Sequence[int] | None = None,
        numbers: Sequence[int] | None = None,
        times: Sequence[float] | None = None,
        vectors: np.ndarray | None = None,
    ) -> None:
        count = len(texts)
        self.texts = texts
        self.numbers = list(numbers or range(1, count + 1))
        self.entries = Entries(
            np.array(self.numbers, np.int64),
            np.array(sessions or range(1, count + 1), np.int64),
            np.array(times or [START] * count, np.float64),
            None if vectors is None else CodedVectors.of(vectors),
        )
        self.postings: dict[str, Postings] = {}
        self.words = 0
        found: dict[str, list[tuple[int, int, int]]] = {}
        for number, text in zip(self.numbers, texts, strict=True):
            counted = terms(text)
            self.words += (length := sum(counted.values()))
            for term, times_used in counted.items():
                found.setdefault(term, []).append((number, times_used, length))
        for term, rows in found.items():
            columns = np.array(rows, np.float32).T
            self.postings[term] = Postings(columns[0].astype(np.int64), columns[1], columns[2])

    def rank(
        self,
        text: str,
        vector: np.ndarray | None = None,
        *,
        now: datetime | None = None,
        allowed: Sequence[bool] | None = None,
        limit: int = 10,
    ) -> list[Ranked]:
        query = RecallQuery.read(text, vector, now=now)
        known = {term: self.postings[term] for term in query.terms if term in self.postings}
        mask = None if allowed is None else np.array(allowed)
        return rank(query, self.entries, known, words=self.words, allowed=mask, limit=limit)

    def found(self, text: str, *, now: datetime | None = None, allowed: Sequence[bool] | None = None) -> list[str]:
        return [self.texts[self.numbers.index(each.number)] for each in self.rank(text, now=now, allowed=allowed)]


def unit(*values: float) -> np.ndarray:
    vector = np.array(values, np.float32)
    return vector / np.linalg.norm(vector)


def test_rare_words_count_more_than_frequent_ones() -> None:
    """G4."""
    memory = Memory(["the garden", "the garden shed", "the garden gnome", "a blue lorry"])
    assert memory.found("a lorry in the garden")[0] == "a blue lorry"
    assert len(memory.found("garden")) == 3
    assert memory.found("submarine") == []


def test_inflected_words_are_found() -> None:
    """G4."""
    assert Memory(["She baked cakes", "He paints walls"]).found("who is painting a wall?") == ["He paints walls"]


def test_meaning_finds_an_entry_without_a_shared_word() -> None:
    """G4."""
    memory = Memory(["automobile", "banana"], vectors=np.stack([unit(1, 0.1), unit(0.1, 1)]))
    found = memory.rank("car", unit(1, 0))
    assert [each.number for each in found] == [1, 2]
    assert found[0].meaning > 0.9
    assert found[0].words == 0.0
    assert "meaning" in found[0].reason


def test_an_entry_without_a_vector_is_found_by_its_words() -> None:
    """G4: an entry is found before it is encoded."""
    memory = Memory(["my car is red", "banana"], vectors=np.stack([np.zeros(2, np.float32), unit(0.5, 1)]))
    assert memory.rank("car", unit(1, 0))[0].number == 1


def test_an_answer_is_found_by_its_question() -> None:
    texts = ["Where did you move from?", "Sweden, a while back", "Nice weather", "Where is the bus?"]
    memory = Memory(texts, sessions=[7, 7, 8, 9])
    assert memory.found("move from where")[:2] == texts[:2]
    apart = Memory(texts, sessions=[1, 2, 3, 4])
    assert texts[1] not in apart.found("move from where")


def test_entries_of_no_session_are_not_neighbours() -> None:
    memory = Memory(["we move house", "sugar"], sessions=[NO_SESSION, NO_SESSION])
    assert memory.found("move") == ["we move house"]


def test_sessions_at_the_same_time_keep_their_neighbours() -> None:
    texts = ["Where do you live?", "unrelated", "In Sweden", "also unrelated"]
    assert Memory(texts, sessions=[2, 1, 2, 1]).found("live")[:2] == ["Where do you live?", "In Sweden"]


def test_what_may_not_be_read_is_not_found_and_lifts_nothing() -> None:
    """G2."""
    memory = Memory(["the secret code", "four five six", "code of conduct"], sessions=[1, 1, 2])
    assert memory.found("secret code", allowed=[False, True, True]) == ["code of conduct"]


def test_who_speaks_counts_when_the_query_names_them() -> None:
    texts = ["Ann: I play the violin", "Bob: Ann, I play the violin"]
    for named, first in (("Ann", 0), ("Bob", 1)):
        memory = Memory(texts)
        found = memory.rank(f"What does {named} play?")
        assert found[0].number == first + 1
        assert found[0].spoke
        assert "name" in found[0].reason


def test_a_named_time_counts() -> None:
    texts = ["We went camping", "We went camping there", "We went camping again"]
    memory = Memory(texts, times=[START, START + 40 * DAY, START + 80 * DAY])
    assert memory.found("When did we go camping in June?")[0] == texts[1]
    assert memory.found("camping on 20 July 2023")[0] == texts[2]
    now = datetime.fromtimestamp(START + DAY, UTC)
    assert memory.found("the camping of yesterday", now=now)[0] == texts[0]
    assert memory.rank("camping in June")[0].on_day


def test_numbers_may_have_gaps() -> None:
    memory = Memory(["apple", "pear", "plum"], numbers=[3, 900, 2**48])
    assert [each.number for each in memory.rank("plum and pear", limit=2)] == [2**48, 900]


def test_postings_of_unknown_entries_are_ignored() -> None:
    memory = Memory(["apple pie", "apple tart"])
    memory.postings["appl"] = Postings(np.array([0, 1, 2, 99]), np.ones(4, np.float32), np.ones(4, np.float32))
    assert [each.number for each in memory.rank("apple")] == [2, 1]


def test_equal_scores_put_the_newer_first_and_the_limit_holds() -> None:
    memory = Memory(["same words"] * 200)
    assert [each.number for each in memory.rank("words", limit=3)] == [200, 199, 198]
    assert memory.rank("words", limit=0) == []


def test_nothing_is_found_in_nothing() -> None:
    assert Memory([]).rank("anything", unit(1, 0)) == []


def test_a_query_of_frequent_words_ranks_by_meaning_alone() -> None:
    memory = Memory(["to be", "not to be"], vectors=np.stack([unit(0, 1), unit(1, 0)]))
    assert memory.rank("what is it to be?") == []
    assert memory.rank("what is it to be?", unit(1, 0.1))[0].number == 2


def test_equal_input_gives_equal_output() -> None:
    encoder = BagOfWordsEncoder()
    texts = [f"entry {number} about {'gardens' if number % 3 else 'boats'}" for number in range(300)]
    memory = Memory(texts, sessions=[number // 10 + 1 for number in range(300)], vectors=encoder.encode(texts))
    vector = encoder.encode(["boats"])[0]
    first = memory.rank("boats of entry 7", vector)
    assert first == memory.rank("boats of entry 7", vector)
    assert [each.score for each in first] == sorted((each.score for each in first), reverse=True)
