"""A policy that goes by meaning: when it is prepared, and by what a decision goes (E1, E9)."""

import asyncio
import threading
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import JsonValue
from selection_play import SPOKE, policy_of, user

from turnwise.facts.errors import EncoderError
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.cascade import Cascade
from turnwise.selection.meaning import Meaning
from turnwise.selection.policy import PolicySpec, SegmentSpec, StageSpec
from turnwise.selection.reader import TextReader
from turnwise.selection.vectors import Progress
from turnwise.testing.fake_encoder import BagOfWordsEncoder


class TestMeaning:
    WORDED = AgentTree(
        [
            AgentCard(name="root"),
            AgentCard(name="orders", parent="root", examples=("where is the parcel", "track my parcel")),
            AgentCard(name="returns", parent="root", examples=("take the goods back", "refund for goods")),
        ]
    )
    SPEC = policy_of("semantic")

    async def test_it_is_made_once_and_prepared_once(self) -> None:
        encoder = BagOfWordsEncoder()
        spec = PolicySpec(stages=(StageSpec(selector="semantic"), StageSpec(selector="semantic", name="again")))
        cascade = Cascade(spec, self.WORDED, encoder=encoder)
        assert encoder.calls == 0, "Making a cascade encodes nothing."
        await cascade.prepare()
        before = encoder.calls
        await cascade.prepare()
        assert encoder.calls == before
        selection = await cascade.decide(head=Head(), message=user("track the parcel"))
        assert (selection.agent, selection.method) == ("orders", "semantic_match")
        cascade.close()
        cascade.close()

    async def test_the_first_decision_prepares(self) -> None:
        selection = await Cascade(self.SPEC, self.WORDED, encoder=BagOfWordsEncoder()).decide(
            head=Head(), message=user("track the parcel")
        )
        assert selection.agent == "orders"

    async def test_the_fingerprint_tells_what_meaning_rests_on(self) -> None:
        """E9: encoder, phrases, and what is fitted to them; equal ones are equal in every process."""

        class Other(BagOfWordsEncoder):
            fingerprint = "another"

        async def of(tree: AgentTree, encoder: BagOfWordsEncoder) -> str:
            cascade = Cascade(self.SPEC, tree, encoder=encoder)
            await cascade.prepare()
            selection = await cascade.decide(head=Head(), message=user("x"))
            assert selection.fingerprint == cascade.fingerprint
            return selection.fingerprint

        cards = list(self.WORDED)
        changed = AgentTree([*cards[:-1], cards[-1].replace(examples=("something else",))])
        first = await of(self.WORDED, BagOfWordsEncoder())
        assert await of(self.WORDED, BagOfWordsEncoder()) == first
        assert len({first, await of(self.WORDED, Other()), await of(changed, BagOfWordsEncoder())}) == 3

    async def test_texts_that_cannot_be_encoded_are_an_abstention_and_told_when_prepared(self) -> None:
        """A broken selector never ends a turn."""

        class Broken(BagOfWordsEncoder):
            def encode(self, texts: Any) -> Any:
                raise EncoderError("The encoder is away.")

        cascade = Cascade(policy_of("semantic", "resume"), self.WORDED, encoder=Broken())
        with pytest.raises(EncoderError):
            await cascade.prepare()
        selection = await cascade.decide(head=SPOKE, message=user("track the parcel"))
        assert (selection.agent, selection.method) == ("returns", "resume")
        assert selection.verdicts[0].reason == "It raised EncoderError, so it was passed over."

    def test_the_options_of_its_stages_can_be_read(self) -> None:
        segment = SegmentSpec(when={"channel": "voice"}, options={"semantic": {"threshold": 0.9}})
        cascade = Cascade(self.SPEC.replace(segments=(segment,)), self.WORDED, encoder=BagOfWordsEncoder())
        semantic = {"threshold": 0.5, "top": 3, "margin": None, "novelty": None, "score": "similarity"}
        assert cascade.options() == {"semantic": semantic, "default": {"agent": None, "confidence": 0.6}}
        assert cascade.options("channel=voice")["semantic"] == {**semantic, "threshold": 0.9}
        assert cascade.options("unknown") == {}


class Gated(Meaning):
    """Its fit, in a thread as for a large tree, is not begun before the gate is opened."""

    def __init__(self, tree: AgentTree) -> None:
        super().__init__(tree, BagOfWordsEncoder(), quick_fit=0)
        self.gate = threading.Event()

    def _fit(self, reader: TextReader, progress: Progress) -> bool:
        self.gate.wait(30)
        return super()._fit(reader, progress)


class Swaps:
    """Lets the fit end while a decision is made."""

    def __init__(self, meaning: Gated, name: str = "swaps") -> None:
        self.name = name
        self._meaning = meaning

    async def select(self, request: SelectionRequest) -> Verdict:
        self._meaning.gate.set()
        await self._meaning.fitted()
        return Verdict(selector=self.name, reason="It only swaps.")


class TestOneStateForADecision:
    """E1, E9: what is swapped in while a decision is made is for the next one."""

    @staticmethod
    def cascade(meaning: Gated, *selectors: str) -> Cascade:
        """Stages that go by meaning and never choose, and stages that swap."""
        options: dict[str, dict[str, JsonValue]] = {"semantic": {"threshold": 1.0, "score": "probability", "top": 2}}
        stages = tuple(StageSpec(selector=each, options=options.get(each, {})) for each in selectors)
        return Cascade(PolicySpec(stages=stages), TestMeaning.WORDED, {"swaps": lambda _: Swaps(meaning)}, meaning=meaning)

    @settings(deadline=None, max_examples=20)
    @given(st.lists(st.sampled_from(["semantic", "swaps"]), max_size=6))
    def test_all_stages_go_by_the_state_it_began_with(self, selectors: list[str]) -> None:
        async def decided() -> None:
            meaning = Gated(TestMeaning.WORDED)
            cascade = self.cascade(meaning, "semantic", "swaps", *selectors)
            meaning.prepare()
            before = cascade.fingerprint
            first, second = [await cascade.decide(head=Head(), message=user("refund for the parcel")) for _ in range(2)]
            assert (first.fingerprint, second.fingerprint) == (before, cascade.fingerprint)
            assert before != cascade.fingerprint
            assert [len(reasons(selection)) for selection in (first, second)] == [1, 1]
            assert reasons(first) != reasons(second)

        asyncio.run(decided())

    async def test_what_is_first_read_by_counts_when_nothing_was_ready(self) -> None:
        meaning = Gated(TestMeaning.WORDED)
        cascade = self.cascade(meaning, "semantic", "swaps", "semantic")
        unready = cascade.fingerprint
        selection = await cascade.decide(head=Head(), message=user("refund for the parcel"))
        assert len(reasons(selection)) == 1
        assert selection.fingerprint not in (unready, cascade.fingerprint)

    async def test_a_decision_that_reads_nothing_records_what_there_was(self) -> None:
        meaning = Gated(TestMeaning.WORDED)
        cascade = self.cascade(meaning, "swaps", "semantic")
        unready = cascade.fingerprint
        selection = await cascade.decide(head=Head(), message=user(""))
        assert selection.fingerprint == unready != cascade.fingerprint

    async def test_decisions_made_at_once_have_each_their_own(self) -> None:
        meaning = Gated(TestMeaning.WORDED)
        cascade = self.cascade(meaning, "semantic", "swaps", "semantic")
        meaning.prepare()
        before = cascade.fingerprint
        many = [cascade.decide(head=Head(), message=user("refund for the parcel")) for _ in range(5)]
        assert {selection.fingerprint for selection in await asyncio.gather(*many)} == {before}


def reasons(selection: Selection) -> set[str]:
    """What the stages that go by meaning said."""
    return {verdict.reason for verdict in selection.verdicts if verdict.selector.startswith("semantic")}
