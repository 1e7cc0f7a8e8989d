"""What a decision records of itself, and that equal facts decide equally (C10, E1, E9)."""

import os
import subprocess
import sys

from selection_play import ASKED, SPOKE, TREE, Own, decide, user

from turnwise.facts.selections import Selection
from turnwise.facts.sessions import Head
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy
from turnwise.selection.policy import PolicySpec, SegmentSpec, StageSpec


class TestTheRecord:
    """C10, E1"""

    async def test_it_holds_everything_the_decision_rests_on(self) -> None:
        """C10, E1"""
        cascade = Cascade(named_policy("default"), TREE)
        selection = await cascade.decide(head=ASKED, message=user("hm"))
        assert selection.policy == "default"
        assert selection.fingerprint == cascade.fingerprint
        assert selection.tree_version == TREE.version
        assert selection.occasion == "message"
        assert selection.reason == selection.verdicts[-1].reason == "returns asked the user and waits for the reply."
        assert all(verdict.reason and verdict.ms >= 0 for verdict in selection.verdicts)
        assert selection.ms >= max(verdict.ms for verdict in selection.verdicts)
        assert Selection.model_validate_json(selection.model_dump_json()) == selection

    def test_the_fingerprint_changes_with_whatever_decides(self) -> None:
        """C10, E9"""

        def of(spec: PolicySpec) -> str:
            return Cascade(spec, TREE, {"own": Own}).fingerprint

        base = PolicySpec(stages=(StageSpec(selector="patterns"), StageSpec(selector="own")))
        explicit = base.with_options({"patterns": {"threshold": 0.7, "margin": None}})
        assert of(base) == of(base.replace(name="renamed")) == of(explicit)
        others = [
            base.with_options({"patterns": {"threshold": 0.71}}),
            base.with_options({"own": {"answer": 1}}),
            base.with_options({}, default="orders"),
            base.replace(stages=base.stages[::-1]),
            base.replace(stages=base.stages[:1]),
            base.replace(segments=(SegmentSpec(when={"channel": "x"}),)),
        ]
        assert len({of(each) for each in (base, *others)}) == len(others) + 1

    async def test_equal_facts_decide_equally_whatever_came_before(self) -> None:
        """E9"""
        cascade = Cascade(named_policy("default"), TREE)
        facts = [(SPOKE, "yes"), (ASKED, "12"), (Head(), "my order"), (SPOKE, "return")]
        first = [plain(await cascade.decide(head=head, message=user(text))) for head, text in facts]
        again = [plain(await cascade.decide(head=head, message=user(text))) for head, text in reversed(facts)]
        other = [plain(await decide(text, head=head)) for head, text in facts]
        assert first == again[::-1] == other


def plain(selection: Selection) -> Selection:
    verdicts = tuple(verdict.replace(ms=0.0) for verdict in selection.verdicts)
    return selection.replace(verdicts=verdicts, ms=0.0)


_ELSEWHERE = """
import asyncio
from turnwise.facts.content import text_content
from turnwise.facts.sessions import Head
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy
from turnwise.testing.selector_suite import sample_tree
cascade = Cascade(named_policy("default"), sample_tree())
selection = asyncio.run(cascade.decide(head=Head(), message=text_content("stores", "user")))
print(selection.agent, selection.fingerprint, selection.tree_version, [e.agent for e in selection.excluded])
"""


def test_another_process_decides_the_same() -> None:
    """E9: whatever the seed of its hashes."""
    said = {
        subprocess.run(
            [sys.executable, "-c", _ELSEWHERE],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(said) == 1
    assert said.pop().startswith("Stores Nearby ")
