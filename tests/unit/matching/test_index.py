"""The nearest phrases, exactly up to a size and nearly above."""

from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from turnwise.matching.index import NO_PHRASE, Index
from turnwise.matching.packed_vectors import PackedVectors, coded

Floats = NDArray[np.float32]


def unit(rows: NDArray[np.floating]) -> Floats:
    found: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return found


def crowd(count: int, labels: int, dimensions: int = 48) -> tuple[Floats, NDArray[np.int64], Floats]:
    """Phrases around their labels' middles, in no order; and texts of the same kind."""
    generator = np.random.default_rng(7)
    middles = unit(generator.standard_normal((labels, dimensions)))
    owners = generator.integers(0, labels, count)
    noise = generator.standard_normal((count, dimensions)) * (0.8 / np.sqrt(dimensions))
    texts = middles[generator.integers(0, labels, 200)] + generator.standard_normal((200, dimensions)) * (
        0.8 / np.sqrt(dimensions)
    )
    return unit(middles[owners] + noise), owners, unit(texts)


def plainly(vectors: Floats, owners: NDArray[np.int64], text: Floats, count: int, per_label: int) -> list[int]:
    """The nearest, by looking at one after the other."""
    cosines = vectors @ text
    taken: list[int] = []
    used: Counter[int] = Counter()
    for place in sorted(range(len(vectors)), key=lambda place: (-cosines[place], place)):
        if used[owners[place]] < per_label and len(taken) < count:
            used[owners[place]] += 1
            taken.append(place)
    return taken


def test_a_small_index_is_exact() -> None:
    vectors, owners, texts = crowd(500, 20)
    index = Index(vectors, owners, 21)
    assert index.is_exact
    assert len(index) == 500
    for text in texts[:50]:
        found = index.search(text, count=5, per_label=2)
        assert found.places.tolist() == plainly(vectors, owners, text, 5, 2)
        assert found.cosines == pytest.approx(vectors[found.places] @ text, abs=1e-6)
        cosines = vectors @ text
        assert found.best[:20] == pytest.approx([cosines[owners == label].max() for label in range(20)], abs=1e-6)
        assert found.best[20] == NO_PHRASE  # nobody's phrases


def test_equal_phrases_come_in_their_order_and_a_label_with_many_leaves_room_for_others() -> None:
    same = np.repeat(unit(np.ones((1, 8))), 300, axis=0)
    other = unit(np.array([[1.0, 0, 0, 0, 0, 0, 0, 0]]))
    index = Index(np.concatenate([same, other]), np.array([0] * 300 + [1]), 2)
    places, cosines, _ = index.search(same[0], count=5, per_label=2)
    assert places.tolist() == [0, 1, 300]
    assert cosines[0] == pytest.approx(1.0)


def test_one_phrase_and_none() -> None:
    one = Index(unit(np.ones((1, 8))), np.array([0]), 1)
    assert one.search(unit(np.ones((1, 8)))[0]).places.tolist() == [0]
    none = Index(np.empty((0, 8), np.float32), np.empty(0, np.int64), 2)
    found = none.search(np.ones(8, np.float32))
    assert (found.places.tolist(), found.best.tolist()) == ([], [NO_PHRASE, NO_PHRASE])


def test_many_texts_are_searched_as_one_by_one() -> None:
    for exact in (10_000, 100):
        vectors, owners, texts = crowd(2_000, 50)
        index = Index(vectors, owners, 50, exact=exact)
        for text, found in zip(texts, index.search_many(texts), strict=True):
            single = index.search(text)
            assert found.places.tolist() == single.places.tolist()
            assert found.best == pytest.approx(single.best, abs=1e-5)


def test_a_large_index_finds_what_an_exact_one_finds() -> None:
    vectors, owners, texts = crowd(12_000, 300)
    exact, index = Index(vectors, owners, 300, exact=12_000), Index(vectors, owners, 300)
    assert not index.is_exact
    same = label = 0
    for text in texts:
        right, found = exact.search(text), index.search(text)
        same += found.cosines[0] >= right.cosines[0] - 0.002
        label += found.best.argmax() == right.best.argmax()
        assert found.cosines == pytest.approx(vectors[found.places] @ text, abs=0.004)  # 8 bits a number
        assert (found.best <= right.best + 0.004).all()  # what is not looked at never looks nearer than it is
    assert same >= 198
    assert label >= 196


def test_labels_of_any_size_stand_side_by_side() -> None:
    """One agent may have thousands of examples, another one: neither hides the other."""
    vectors, owners, texts = crowd(6_000, 40)
    owners = np.where(owners < 30, 0, owners)  # thirty skills of one agent
    exact, index = Index(vectors, owners, 40), Index(vectors, owners, 40, exact=100)
    alike = [exact.search(text).best.argmax() == index.search(text).best.argmax() for text in texts]
    assert sum(alike) >= 196
    lonely = np.concatenate([vectors, unit(np.ones((1, 48)))])
    found = Index(lonely, np.append(owners, 40), 41, exact=100).search(unit(np.ones((1, 48)))[0])
    assert found.places[0] == 6_000
    assert found.best[40] == pytest.approx(1.0, abs=0.01)


def test_a_large_index_is_the_same_every_time() -> None:
    """E9"""
    vectors, owners, texts = crowd(3_000, 40)
    one, two = (Index(vectors, owners, 40, exact=100) for _ in range(2))
    for name, array in one.arrays().items():
        assert np.array_equal(array, two.arrays()[name])
    assert one.search(texts[0]).places.tolist() == two.search(texts[0]).places.tolist()


def test_thousands_of_equal_phrases_are_an_index_too() -> None:
    vectors = np.repeat(unit(np.ones((1, 8))), 3_000, axis=0)
    index = Index(vectors, np.arange(3_000), 3_000, exact=100)
    found = index.search(vectors[0])
    assert len(set(found.places.tolist())) == 5
    assert found.cosines == pytest.approx(np.ones(5), abs=0.01)
    assert found.best == pytest.approx(np.ones(3_000), abs=0.01)


@pytest.mark.parametrize("exact", [10_000, 100])
def test_arrays_make_the_same_index(exact: int) -> None:
    vectors, owners, texts = crowd(1_000, 30)
    index = Index(vectors, owners, 30, exact=exact)
    again = Index.from_arrays(index.arrays())
    assert again.is_exact == index.is_exact
    for text in texts[:20]:
        assert np.array_equal(again.search(text).places, index.search(text).places)
        assert np.array_equal(again.search(text).best, index.search(text).best)
    with pytest.raises(KeyError):
        Index.from_arrays({"label_count": np.array(3)})


def test_codes_are_shared_before_and_after_a_change() -> None:
    """F3: an index of the vectors of another one, with some more, has their numbers, and no copy of them."""
    vectors, owners, texts = crowd(1_000, 30)
    before = Index(vectors, owners, 30, exact=100)
    codes = before.vectors()
    assert isinstance(codes, PackedVectors)
    more = coded(texts[:8])
    both = PackedVectors(*codes.beside(more))
    labels = np.append(owners, np.repeat(29, 8))
    shared, anew = Index(both, labels, 30, exact=100), Index(np.concatenate([vectors, texts[:8]]), labels, 30, exact=100)
    for name, array in anew.arrays().items():
        assert np.array_equal(shared.arrays()[name], array), name
    for text in texts[:20]:
        assert np.array_equal(shared.search(text).places, anew.search(text).places)
        assert np.array_equal(shared.search(text).best, anew.search(text).best)
    assert all(any(block is known for known in both._blocks) for block in shared._rows.codes._blocks)  # type: ignore[union-attr]
    few = Index(both.chosen(np.arange(500)), labels[:500], 30, exact=100)
    assert len(few._rows.codes._blocks[0]) == 500, "waste is not kept"  # type: ignore[union-attr]


def test_codes_depend_on_their_row_alone() -> None:
    """E9: the same bytes from float32, from float16 and from codes, in any company."""
    vectors, _, _ = crowd(300, 10)
    codes = coded(vectors)
    packed = PackedVectors((vectors.astype(np.float16),), np.arange(300))
    assert np.abs(codes[:] - vectors).max() < 0.01
    assert np.einsum("ij,ij->i", codes[:], vectors) == pytest.approx(np.ones(300), abs=0.001)
    assert np.array_equal(coded(packed.chosen(np.arange(5))).raw(), coded(packed).raw(slice(0, 5)))
    assert np.array_equal(coded(codes[:]).raw(), codes.raw()), "codes of unpacked codes are the same"
    assert coded(codes) is codes
