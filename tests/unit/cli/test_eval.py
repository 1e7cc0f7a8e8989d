"""An evaluation at a terminal (behaviour E3)."""

from pydantic import JsonValue

from turnwise.cli import eval_output
from turnwise.learning.evaluate import Gate, Missed, Subject, evaluation
from turnwise.learning.measures import Outcome

SUBJECT = Subject("default", "f" * 16, 3, 1_200, "own", {"contextual.nobody": 0.45, "messages": 9}, {"ghost": 2})


def lines(*outcomes: Outcome, subject: Subject = SUBJECT) -> list[str]:
    return "\n".join(text.plain for text in eval_output.report_lines(evaluation(subject, outcomes))).splitlines()


def test_figures_come_with_what_they_are_of() -> None:
    """E3: what cannot be measured is left out; what was tuned, and who does not exist, is told."""
    told = lines(
        Outcome("x", "a", "a", "a", (("a", 0.9),), method="m", ms=1.234), Outcome("y", "ghost", "root", None, method="n")
    )
    assert told[:4] == [
        "50.0 % of 2 cases reached the right agent",
        "3 agents, 1,200 examples · policy default (ffffffffffffffff) · history own",
        "tuned on validation: contextual.nobody 0.45, messages 9",
        "cases that name unknown agents count as wrong: ghost (2)",
    ]
    text = "\n".join(told)
    assert "best-scored agent" in text
    assert "changes" not in text
    assert "out of scope: found" not in text
    assert "calibration error 5.0 points  a decision 0.62 ms, p99 1.22" in text


def test_mistakes_and_methods_are_listed() -> None:
    """E3: with an example each; the rest is counted."""
    wrong = [Outcome(f"text {number}", f"a{number}", "b", "b", (("b", 0.5),), method="m") for number in range(12)]
    told = lines(*wrong, Outcome("z", None, "b", "b", method="m"), subject=SUBJECT._replace(tuned=None, unknown={}))
    at = next(number for number, line in enumerate(told) if line.startswith("belongs to"))
    assert told[at + 1].split() == ["a0", "b", "1", "text", "0"]
    assert told[-1] == "… 3 more pairs, 3 cases"
    assert any(line.split() == ["m", "13", "0.0", "%", "·" * 24] for line in told)


def test_what_was_not_better_is_told() -> None:
    """E3: a tuning that kept nothing says so."""
    tuned: dict[str, JsonValue] = {"accuracy_before": 0.894, "accuracy_after": 0.894}
    told = lines(Outcome("x", "a", "a", "a"), subject=SUBJECT._replace(tuned=tuned, unknown={}))
    assert told[2] == "tuned on validation: nothing was better, what was set before stays; accuracy_before 0.894"


def test_a_long_list_of_unknown_agents_is_cut() -> None:
    """E3"""
    told = lines(Outcome("x", "a", "a", "a"), subject=SUBJECT._replace(unknown={f"g{number}": 1 for number in range(9)}))
    assert told[3].endswith("g4 (1) and 4 more")


def test_nothing_in_it_reaches_the_terminal_raw() -> None:
    """E3: texts and names come from files."""
    evil = "a\x1b[31m\x07\u202eb"
    told = "\n".join(
        lines(Outcome(evil, evil, evil + "c", evil + "c", ((evil, 1.0),), method=evil), subject=SUBJECT._replace(policy=evil))
    )
    assert not {"\x1b", "\x07", "\u202e"} & set(told)


def test_a_missed_gate_is_told() -> None:
    """E3"""
    assert Missed(Gate("accuracy", 0.9), 0.81234).text == "accuracy is 0.8123, it should be at least 0.9."
    assert Missed(Gate("ece", 0.02, True), None).text == ("ece should be at most 0.02, but there was nothing to measure it on.")
    assert eval_output.percent(None) == "–"
