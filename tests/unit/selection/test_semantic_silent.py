"""Whether agents say in words what they are for."""

from typing import Any

import pytest

from turnwise.facts.tree import AgentCard, AgentTree, Skill
from turnwise.selection.phrases import phrases_of
from turnwise.selection.semantic import NoTextSelector, has_words
from turnwise.testing.selector_suite import request_for


def tree(root: dict[str, Any], child: dict[str, Any], leaf: dict[str, Any] | None = None) -> AgentTree:
    return AgentTree(
        [
            AgentCard(name="root", **root),
            AgentCard(name="child", parent="root", **child),
            *([] if leaf is None else [AgentCard(name="leaf", parent="child", **leaf)]),
        ]
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (tree({}, {}), False),
        (tree({"description": "Greets."}, {}), False),
        (tree({"examples": ("hi",)}, {}), True),
        (tree({}, {"description": " "}), False),
        (tree({}, {"description": "Finds orders."}), True),
        (tree({}, {"description": "Leads."}, {}), False),
        (tree({}, {"kind": "sequential", "description": "Writes letters."}, {}), True),
        (tree({}, {"skills": (Skill(name="find orders"),)}), True),
        (tree({"skills": (Skill(name="x", examples=("hi",)),)}, {}), True),
    ],
)
def test_words_are_what_phrases_are_made_of(given: AgentTree, words: bool) -> None:
    """Names alone are no words: bare agents are decided by patterns and who spoke last."""
    assert has_words(given) is words
    assert any(phrase.kind != "name" for phrase in phrases_of(given)) is words


def test_another_default_agent_is_quiet() -> None:
    given = tree({"description": "Finds orders."}, {"description": "Greets."})
    assert not has_words(given, "child")


async def test_silent_says_why() -> None:
    verdict = await NoTextSelector("contextual").select(request_for(tree({}, {}), "hi"))
    assert (verdict.selector, verdict.outcome) == ("contextual", "abstained")
    assert "examples" in verdict.reason
