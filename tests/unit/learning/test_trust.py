"""How sure labels are: by weight, by similar texts of others, by how often a user is contradicted (behaviours H2, H5)."""

import numpy as np
import pytest

from turnwise.learning.labelled import Labelled, Trust, trust_in


def signal(number: int, *, expected: str | None = "a", weight: float = 0.7, **fields: object) -> Labelled:
    known = {"text": f"m{number}", "chosen": "a", "user": f"u{number}", "session": "s", "at": float(number)}
    return Labelled(expected=expected, weight=weight, by_operator=False, **(known | fields))  # type: ignore[arg-type]


def near(*topics: int) -> np.ndarray:
    """Vectors of texts: those of one topic have a cosine of 0.8, others nothing in common."""
    found = np.zeros((len(topics), max(topics) + 1 + len(topics)), np.float32)
    for place, topic in enumerate(topics):
        found[place, topic], found[place, max(topics) + 1 + place] = 0.8**0.5, 0.2**0.5
    return found


def trust(*labelled: Labelled, topics: tuple[int, ...]) -> Trust:
    return trust_in(labelled, range(len(labelled)), near(*topics))


def test_a_label_alone_is_as_sure_as_its_weight_and_teaches_nothing() -> None:
    found = trust(signal(0), signal(1, expected="b"), topics=(0, 1))
    assert found.belief(0) == pytest.approx(0.7, abs=0.02)
    assert not found.is_supported(0)


def test_others_with_similar_texts_make_a_label_surer_or_doubted() -> None:
    """H5: three users say `a`, one says `b` of a similar text."""
    labelled = [signal(0), signal(1), signal(2), signal(3, expected="b"), signal(4, expected="b"), signal(5, expected="b")]
    found = trust(*labelled, topics=(0, 0, 0, 0, 1, 1))
    assert min(found.belief(place) for place in range(3)) > 0.7
    assert found.is_supported(0)
    assert found.is_doubted(3)
    assert not found.is_doubted(4)
    assert found.chance(3, "a") > found.chance(3, "b")
    assert found.chance(3, "an agent that no label names") == 0.0


def test_a_user_does_not_agree_with_itself() -> None:
    same = [signal(number, user="u", expected="b") for number in range(4)]
    found = trust(*same, signal(9), topics=(0, 0, 0, 0, 1))
    assert not any(found.is_supported(place) for place in range(4))


def test_a_user_whom_others_contradict_is_believed_less_elsewhere() -> None:
    """H5: one user contradicts all others on one topic, so its label of a text that nobody else knows is less sure."""
    others = [signal(number, expected="a") for number in range(12)]
    contrary = [signal(20 + number, user="contrary", expected="b") for number in range(6)]
    alone = [signal(30, user="contrary", expected="c"), signal(31, expected="c")]
    found = trust(*others, *contrary, *alone, topics=(*[0] * 18, 1, 2))
    assert found.belief(18) < found.belief(19) - 0.1


def test_operators_overrule() -> None:
    """H2: nothing lowers their labels, and one of them is enough to teach."""
    operator = Labelled(text="m", expected="b", chosen="a", user="u", session="s", at=9.0)
    found = trust(signal(0), signal(1), signal(2), operator, topics=(0, 0, 0, 0))
    assert (found.belief(3), found.is_supported(3), found.chance(3, "a")) == (1.0, True, 0.0)


def test_messages_that_do_not_count_have_no_chances() -> None:
    labelled = [signal(0), signal(1)]
    found = trust_in(labelled, [], near(0, 1))
    assert (found.belief(0), found.is_supported(1)) == (0.0, False)
