"""What lint says of examples and descriptions (behaviour E6)."""

import numpy as np

from turnwise.learning.lint_examples import Example, Finding, lint_descriptions, lint_duplicates, lint_neighbours
from turnwise.testing.fake_encoder import BagOfWordsEncoder

MUSIC = ["play some jazz music", "play some rock music", "play some folk music", "play some pop music", "play some soul music"]
TAXI = ["book a cab home", "book a cab now", "book a cab today", "book a cab tonight", "book a cab tomorrow"]


def strangers(*examples: tuple[str, str]) -> list[Finding]:
    given = [Example(*example) for example in examples]
    return [*lint_neighbours(given, BagOfWordsEncoder().encode([text for _, text in given]))]


def labelled(**texts: list[str]) -> list[tuple[str, str]]:
    return [(agent, text) for agent, those in texts.items() for text in those]


def test_an_example_among_anothers_is_a_stranger() -> None:
    """E6: it is told with what it is close to; its own agent's others are no strangers."""
    (finding,) = strangers(*labelled(music=[*MUSIC, "book a cab please"], taxi=TAXI))
    assert (finding.code, finding.severity, finding.agents) == ("example.stranger", "warning", ("music", "taxi"))
    assert finding.problem == "One example of music looks like those of taxi."
    assert len(finding.evidence) == 1
    assert finding.evidence[0].startswith("book a cab please  ↔  book a cab ")


def test_examples_that_keep_apart_are_fine() -> None:
    """E6: one that looks like nobody's is no stranger either."""
    assert strangers(*labelled(music=[*MUSIC, "unheard of nonsense"], taxi=TAXI)) == []
    assert strangers(("a", "only one")) == []
    assert strangers() == []


def test_an_agent_with_few_examples_is_left_in_peace() -> None:
    """E6: from three others nothing can be said of a fourth."""
    assert strangers(*labelled(music=["book a cab please", *MUSIC[:2]], taxi=TAXI)) == []


def test_the_worst_come_first_and_the_order_of_lines_does_not_matter() -> None:
    """E6, E9"""
    lines = labelled(music=[*MUSIC, "book a cab please", "book a cab now please"], taxi=TAXI)
    (finding,) = strangers(*lines)
    (turned,) = strangers(*lines[::-1])
    assert finding.problem == turned.problem == "2 examples of music look like those of taxi."
    assert finding.evidence == turned.evidence


def test_many_examples_are_read_in_parts() -> None:
    """E6: the same is found beyond the first rows."""
    rows = np.eye(64, dtype=np.float32)
    many = [Example(f"agent {place % 60}", f"text {place}") for place in range(700)]
    vectors = np.stack([rows[place % 60] for place in range(700)])
    vectors[650] = rows[3]
    (finding,) = [*lint_neighbours(many, vectors)]
    assert finding.agents == ("agent 50", "agent 3")
    assert finding.evidence[0].startswith("text 650  ↔  ")


def test_one_text_with_two_agents_is_an_error() -> None:
    """E6: case, space and invisible characters aside."""
    found = [*lint_duplicates([Example("b", "Hi there!!"), Example("a", "hi  there!"), Example("c", "bye")])]
    assert [(each.code, each.severity, each.agents, each.evidence) for each in found] == [
        ("example.shared", "error", ("a", "b"), ("Hi there!!",))
    ]


def test_one_text_twice_with_one_agent_is_noted() -> None:
    """E6"""
    (finding,) = lint_duplicates([Example("a", "hi"), Example("a", "HI"), Example("a", "bye")])
    assert (finding.code, finding.severity, finding.problem) == (
        "example.repeated",
        "note",
        "One example of a is repeated.",
    )


def test_shared_examples_are_not_strangers_too() -> None:
    """E6: a mistake is told once."""
    assert strangers(*labelled(music=[*MUSIC, TAXI[0]], taxi=TAXI)) == []


def test_descriptions_that_say_the_same() -> None:
    """E6: each pair once."""
    described = {"a": "handles refunds of orders", "b": "handles orders of refunds", "c": "tells the weather"}
    found = [*lint_descriptions(described, BagOfWordsEncoder().encode([*described.values()]))]
    assert [(each.code, each.agents) for each in found] == [("description.alike", ("a", "b"))]
    assert "cosine 1.00" in found[0].problem
