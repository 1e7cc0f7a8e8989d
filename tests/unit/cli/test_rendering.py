"""Decisions and contents as a reader sees them."""

from collections.abc import Iterable

from pydantic import JsonValue
from rich.text import Text

from turnwise.cli import rendering
from turnwise.cli.decision_output import ranking_table
from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from turnwise.facts.selections import Candidate, Exclusion, Selection, Verdict

EVIL = "\x1b[31mred[/bold]"


def plain(lines: Iterable[Text]) -> list[str]:
    return [line.plain for line in lines]


def selection(*verdicts: Verdict, agent: str = "orders", **more: object) -> Selection:
    return Selection.model_validate(
        {
            "agent": agent,
            "method": "strong_intent_match",
            "confidence": 0.8,
            "reason": "A pattern.",
            "verdicts": verdicts,
            "policy": "default",
            "fingerprint": "abc",
            "tree_version": "def",
            "ms": 1.26,
            **more,
        }
    )


PATTERNS = Verdict(
    selector="patterns",
    outcome="chosen",
    agent="orders",
    method="strong_intent_match",
    confidence=0.8,
    reason="A pattern.",
    candidates=(Candidate(agent="orders", score=0.8, evidence="pattern x"), Candidate(agent="returns", score=0.4)),
    ms=0.5,
)
RESUME = Verdict(
    selector="resume",
    reason="Nobody.",
    candidates=(Candidate(agent="returns", score=0.9), Candidate(agent="desk", score=0.2)),
    passed_over=(Exclusion(agent="gone", rule="unknown", detail="no such agent"),),
    ignored=("a <next> tag",),
)


def test_the_decision_in_one_line() -> None:
    """E1."""
    assert rendering.decision_line(selection(PATTERNS)).plain == "→ orders · strong_intent_match 0.80 · A pattern."


def test_a_question_is_told_from_an_answer() -> None:
    """E5."""
    assert rendering.decision_line(selection(outcome="clarify", method="clarify")).plain.startswith(
        "→ orders asks which it is · cl"
    )


def test_the_ranking_begins_with_the_chosen_and_its_selector() -> None:
    assert plain(ranking_table(selection(RESUME, PATTERNS))) == [
        "   agent    score  selector  because",
        "1  orders    0.80  patterns  pattern x",
        "2  returns   0.40  patterns",
        "3  desk      0.20  resume",
    ]


def test_a_choice_without_candidates_is_ranked_too() -> None:
    chosen = Verdict(selector="default", outcome="chosen", agent="desk", method="m", confidence=0.6)
    lines = plain(ranking_table(selection(chosen, agent="desk")))
    assert lines[1:] == ["1  desk    0.80  default   A pattern."]


def test_a_long_ranking_is_cut() -> None:
    many = PATTERNS.replace(candidates=tuple(Candidate(agent=f"a{n}", score=0.1) for n in range(30)))
    lines = plain(ranking_table(selection(many, agent="a7"), rows=5))
    assert len(lines) == 7
    assert lines[1].startswith("1  a7")
    assert lines[-1].strip() == "… 25 more"


def test_the_explanation_tells_every_verdict_and_who_was_not_considered() -> None:
    """A13, C20."""
    excluded = (Exclusion(agent="admin", rule="role", detail="it is open to staff only"),)
    lines = plain(rendering.explanation_lines(selection(RESUME, PATTERNS, excluded=excluded, excluded_count=3)))
    assert lines == [
        "1. resume  abstained  Nobody.",
        "   0.90  returns",
        "   0.20  desk",
        "   passed over gone: unknown (no such agent)",
        "   ignored: a <next> tag",
        "2. patterns  chosen orders 0.80 (strong_intent_match)  A pattern.  0.5 ms",
        "   ahead of the next by 0.40",
        "   0.80  orders  pattern x",
        "   0.40  returns",
        "not considered: 3",
        "   admin: role (it is open to staff only)",
        "   … 2 more",
    ]


def test_the_explanation_tells_options_and_what_the_message_is_about() -> None:
    """E1: thresholds beside what they were compared with; a second request; how likely it is nobody's; the question."""
    told = RESUME.replace(novelty=0.25, also=("returns",), question="Which?\n1. A", passed_over=())
    options: dict[str, JsonValue] = {"resume": {"rule": "tree", "only": None, "novelty": 0.5}, "other": {"x": 1}}
    lines = plain(rendering.explanation_lines(selection(told), options))
    assert lines[:4] == [
        "1. resume  abstained  Nobody.",
        "   rule tree, novelty 0.5",
        "   out of scope: 0.25 · also asks for returns",
        "   Which?\n   1. A",
    ]


def test_the_summary_names_policy_and_agents() -> None:
    said = rendering.summary_line(selection(PATTERNS, segment="channel=web")).plain
    assert said == "decided by patterns · 1.3 ms · policy default, segment channel=web (abc) · agents def"


def test_columns_are_aligned_by_width_not_by_length() -> None:
    lines = plain(rendering.table(("a", "b"), [("漢字", "x"), ("abcd", "y")]))
    assert lines == ["a     b", "漢字  x", "abcd  y"]


def test_a_style_does_not_spread() -> None:
    line = rendering.styled("a", "bold").append(" b")
    assert [(span.start, span.end) for span in line.spans] == [(0, 1)]


def test_indented_lines_stay_indented() -> None:
    assert rendering.indent(Text("a\nb"), 2).plain == "  a\n  b"


def test_contents_part_by_part() -> None:
    content = Content(
        parts=(
            TextPart(text="two\nlines"),
            DataPart(data={"a": 1}),
            ArtifactPart(name="a.txt", version=2),
            BlobPart(data=b"xyz", mime_type="image/png"),
            ToolCallPart(call_id="c", tool="look", arguments={"q": "x"}),
            ToolResultPart(call_id="c", tool="look", result=1),
        )
    )
    assert plain(rendering.content_lines(content)) == [
        "two\nlines",
        '{"a": 1}',
        "[artifact a.txt, version 2]",
        "[image/png, 3 bytes]",
        '[calls look {"q": "x"}]',
        "[result of look]",
    ]


def test_nothing_that_others_wrote_reaches_the_terminal_raw() -> None:
    verdict = PATTERNS.replace(
        agent=EVIL, reason=EVIL, candidates=(Candidate(agent=EVIL, score=0.1, evidence=EVIL),), ignored=(EVIL,)
    )
    decision = selection(verdict, agent=EVIL, reason=EVIL, excluded=(Exclusion(agent=EVIL, rule="r", detail=EVIL),))
    lines = [rendering.decision_line(decision), *ranking_table(decision), *rendering.explanation_lines(decision)]
    parts = (TextPart(text=EVIL), DataPart(data=EVIL), ArtifactPart(name=EVIL), BlobPart(data=b"", mime_type=EVIL))
    lines += rendering.content_lines(Content(parts=parts))
    assert [line.plain for line in lines if "\x1b" in line.plain] == []
    assert any("red[/bold]" in line.plain for line in lines)
