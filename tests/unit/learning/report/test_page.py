"""The report as a whole (behaviour E3)."""

import re
from html.parser import HTMLParser

from turnwise.learning.evaluate import Evaluation, Subject, evaluation
from turnwise.learning.measures import Outcome
from turnwise.learning.report import page

SUBJECT = Subject("default", "f" * 16, 3, 12, "own", {"contextual.nobody": 0.45}, {"ghost": 2})
EVIL = "</title><script>alert(1)</script>\u202e\x00\"'&"
VOID = {"meta", "line", "rect", "circle", "path", "polyline", "polygon", "br"}


class Checker(HTMLParser):
    """Collects what would reach out of the page, and elements that are not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attrs}
        if tag in {"script", "link", "img", "iframe", "object"} or names & {"src", "href", "onload", "onclick"}:
            self.wrong.append(f"{tag} {attrs}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()
        elif tag not in VOID:
            self.wrong.append(f"closes {tag} in {self.open}")


def checked(found: Evaluation) -> str:
    text = page(found)
    checker = Checker()
    checker.feed(text)
    assert (checker.wrong, checker.open) == ([], [])
    assert not re.search(r"https?://|url\(|@import", text)
    return text


def test_the_page_needs_nothing_else_and_shows_everything() -> None:
    """E3: one file, no script, no address; figures, plots, mistakes with what was said."""
    talk = [
        Outcome(f"message {n}", "a", "b" if n % 3 else "a", "b" if n % 3 else "a", (("a", 0.6),), 0.1, "m", 1.5, str(n), turn)
        for n in range(6)
        for turn in range(2)
    ]
    alone = Outcome("what", None, "root", None, (("a", 0.2),), 0.8, "default_fallback", 0.5)
    text = checked(evaluation(SUBJECT, [*talk, alone]))
    shown = ["Confidence calibration", "Accuracy by turn", "Confusion map", "message 1", "1.50 ms", "ghost (2)"]
    for expected in [*shown, "contextual.nobody 0.45", "prefers-color-scheme: dark"]:
        assert expected in text


def test_what_others_wrote_is_only_text() -> None:
    """E3: texts, agents, methods, policies and reasons come from files."""
    outcome = Outcome(EVIL, EVIL, EVIL + "2", EVIL + "2", ((EVIL, 0.5),), 0.5, EVIL, 1.0, None, 0, True, EVIL)
    text = checked(evaluation(SUBJECT._replace(policy=EVIL, unknown={EVIL: 1}, tuned={EVIL: EVIL}), [outcome]))
    assert "<script" not in text
    assert "\x00" not in text


def test_nothing_at_all_is_shown_too() -> None:
    """E3: unscored turns only, no mistakes, nothing in scope."""
    checked(evaluation(SUBJECT._replace(tuned=None, unknown={}), [Outcome("x", None, "a", "a", scored=False, dialogue="d")]))
    assert "No mistakes." in checked(evaluation(SUBJECT, [Outcome("x", None, "root", None)]))
    checked(evaluation(SUBJECT, []))
