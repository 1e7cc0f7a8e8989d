"""The plots with axes (behaviour E3)."""

import re

from turnwise.learning.measures import Outcome
from turnwise.learning.report.plots import coverage_plot, latency_plot, reliability_plot, turns_plot


def outcome(expected: str | None, chosen: str | None, confidence: float, **more: object) -> Outcome:
    return Outcome("t", expected, chosen or "root", chosen, ((chosen or "a", confidence),))._replace(**more)  # type: ignore[arg-type]


def inside(drawn: str) -> bool:
    """Whether every point lies in the picture."""
    width, height = (float(each) for each in re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)[0])
    points = re.findall(r'c?x="(-?[\d.]+)" c?y="(-?[\d.]+)"', drawn)
    lines = [point.split(",") for places in re.findall(r'points="([^"]+)"', drawn) for point in places.split()]
    return all(-height <= float(x) <= width and 0 <= float(y) <= height for x, y in [*points, *lines])


def test_reliability_shows_each_bin() -> None:
    """E3"""
    drawn = reliability_plot([outcome("a", "a", 0.95), outcome("a", "b", 0.95), outcome("a", "a", 0.1)])
    assert "2 cases, confidence 95.0 %, right 50.0 %" in drawn
    assert inside(drawn)


def test_coverage_shows_what_was_decided() -> None:
    """E3"""
    drawn = coverage_plot([outcome("a", "a", 0.9), outcome("a", "b", 0.5), outcome(None, None, 0.1)])
    assert "an agent takes 66.7 %, and 50.0 % of those are right" in drawn
    assert inside(drawn)
    assert inside(coverage_plot([outcome(None, None, 0.0)]))
    assert inside(coverage_plot([outcome("a", "a", 1.0)] * 1_000))


def test_latency_shows_its_percentiles() -> None:
    """E3: what took longest stands in the last column; no time at all is no trouble."""
    drawn = latency_plot([1.0] * 99 + [50.0])
    assert "p50 1.00 ms" in drawn
    assert "or longer: 1 (1.0 %)" in drawn
    assert inside(drawn)
    assert inside(latency_plot([0.0]))
    assert inside(latency_plot([0.00012, 0.0002]))
    assert inside(latency_plot([250_000.0, 300_000.0]))


def test_turns_are_shown_where_there_are_dialogues() -> None:
    """E3: only turns that enough dialogues have."""
    talk = [outcome("a", "a" if turn else "b", 1.0, dialogue=str(n), turn=turn) for n in range(6) for turn in range(3)]
    drawn = turns_plot(talk)
    assert drawn is not None
    assert "turn 1: 0.0 % of 6" in drawn
    assert "turn 3: 100.0 % of 6" in drawn
    assert inside(drawn)
    assert turns_plot([outcome("a", "a", 1.0)]) is None
