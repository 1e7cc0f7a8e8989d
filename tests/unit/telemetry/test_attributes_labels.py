from turnwise.facts.errors import LimitReached, ModelUnavailable, TurnwiseError
from turnwise.telemetry.attributes import CHARACTERS, OTHER, Few, codes, ends


def test_known_values_and_a_few_others_pass() -> None:
    few = Few(["a"], more=2)
    assert [few.of(value) for value in ("x", "a", "y", "z", "x", "y", "a", "z")] == ["x", "a", "y", OTHER, "x", "y", "a", OTHER]


def test_without_room_only_the_known_pass() -> None:
    assert [Few(["a"]).of(value) for value in ("a", "b", "")] == ["a", OTHER, OTHER]


def test_a_label_is_short() -> None:
    assert len(Few(more=1).of("x" * 10_000)) == CHARACTERS


def test_every_end_that_there_is_passes_and_no_other() -> None:
    known = ends()
    for end in ("completed", "clarify", "failed", "cancelled", "blocked", "loop", "waiting", "lost", "limit:steps"):
        assert known.of(end) == end
    assert known.of("limit:whatever I say") == known.of("done") == OTHER


def test_the_codes_of_all_errors_pass() -> None:
    class OfAnApp(TurnwiseError):
        code = "shop.closed"

    known = codes()
    for kind in (TurnwiseError, ModelUnavailable, LimitReached, OfAnApp):
        assert known.of(kind.code) == kind.code
    assert known.of("an agent's own") == OTHER
