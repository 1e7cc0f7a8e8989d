from turnwise.facts.errors import LimitReached, ModelUnavailable, TurnwiseError
from turnwise.telemetry.attributes import LABEL_CHARACTERS, OTHER, LabelSet, end_labels, error_code_labels


def test_known_values_and_a_few_others_pass() -> None:
    few = LabelSet(["a"], more=2)
    assert [few.of(value) for value in ("x", "a", "y", "z", "x", "y", "a", "z")] == ["x", "a", "y", OTHER, "x", "y", "a", OTHER]


def test_without_room_only_the_known_pass() -> None:
    assert [LabelSet(["a"]).of(value) for value in ("a", "b", "")] == ["a", OTHER, OTHER]


def test_a_label_is_short() -> None:
    assert len(LabelSet(more=1).of("x" * 10_000)) == LABEL_CHARACTERS


def test_every_end_that_there_is_passes_and_no_other() -> None:
    known = end_labels()
    for end in ("completed", "clarify", "failed", "cancelled", "blocked", "loop", "waiting", "lost", "limit:steps"):
        assert known.of(end) == end
    assert known.of("limit:whatever I say") == known.of("done") == OTHER


def test_the_codes_of_all_errors_pass() -> None:
    class OfAnApp(TurnwiseError):
        code = "shop.closed"

    known = error_code_labels()
    for kind in (TurnwiseError, ModelUnavailable, LimitReached, OfAnApp):
        assert known.of(kind.code) == kind.code
    assert known.of("an agent's own") == OTHER
