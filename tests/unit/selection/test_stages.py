"""From a policy's data to selectors: everything that can be wrong is found at once."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic import JsonValue

from turnwise.facts.errors import PatternError, PolicyError
from turnwise.facts.selections import Candidate, Verdict
from turnwise.facts.sessions import AuthorMark, Head
from turnwise.facts.tree import AgentCard, AgentTree, Pattern
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection.meaning import Meaning
from turnwise.selection.policy import PolicySpec, StageSpec
from turnwise.selection.stages import BUILT_IN, Stage, build, build_context
from turnwise.testing.fake_encoder import BagOfWordsEncoder
from turnwise.testing.selector_suite import request_for

TREE = AgentTree([AgentCard(name="root"), AgentCard(name="a", parent="root", patterns=(Pattern(regex="x"),))])

PAIR = AgentTree([AgentCard(name="root"), *(AgentCard(name=name, parent="root") for name in "ab")])
ONLY_ASKS: dict[str, JsonValue] = {"only": "question", "stage": "contextual"}


class Own:
    def __init__(self, tree: AgentTree, *, word: str = "hi") -> None:
        self.name = "own"
        self.tree = tree
        self.word = word

    async def select(self, request: SelectionRequest) -> Verdict:
        return Verdict(selector=self.name, reason=self.word)


NEEDED: dict[str, dict[str, Any]] = {
    "iterative": {"order": ["a"]},
    "model": {"model": {"model": "judge", "url": "http://127.0.0.1:9/v1"}},
}
"""The options that a selector does not do without."""


def made(selector: str, options: dict[str, Any] | None = None, *, custom: Any = None, tree: AgentTree = TREE) -> Stage:
    site = build_context(PolicySpec(name="p"), tree, custom or {})
    return build(site, "stage", StageSpec(selector=selector, options=options or {}))


@pytest.mark.parametrize("selector", BUILT_IN)
def test_every_built_in_selector_is_made_under_its_stages_name(selector: str) -> None:
    stage = made(selector, NEEDED.get(selector, {}))
    assert (stage.name, stage.kind, stage.selector.name) == ("stage", selector, "stage")


def test_options_are_filled_in() -> None:
    assert made("patterns").options == {"threshold": 0.7, "margin": None, "yields": None}
    assert made("resume", {"only": "awaiting"}).options == {
        "rule": "tree",
        "only": "awaiting",
        "novelty": None,
        "stage": None,
    }
    contextual = {"general": None, "nobody": 0.85, "awaited": 0.9, "margin": 0.0, "ties": "others"}
    assert made("contextual").options == contextual | dict.fromkeys(("stay", "back", "message", "conversation"), 0.0)
    assert made("smalltalk").options == {"agent": None, "threshold": 0.5}
    assert made("iterative", {"order": ["a", "root"]}).options == {"order": ["a", "root"]}


@pytest.mark.parametrize(
    ("selector", "options", "says"),
    [
        ("direkt", {}, "there is no selector 'direkt'"),
        ("mine:make", {}, "there is no selector 'mine:make'"),
        ("direct", {"agent": "a"}, "'agent' is not known"),
        ("patterns", {"treshold": 0.5}, "'treshold' is not known"),
        ("patterns", {"threshold": 1.5}, "'threshold'"),
        ("patterns", {"threshold": "high"}, "'threshold'"),
        ("patterns", {"margin": -0.1}, "'margin'"),
        ("resume", {"rule": "adc"}, "'rule'"),
        ("resume", {"only": "asked"}, "'only'"),
        ("resume", {"stage": "stage"}, "'stage' is not a `contextual` stage"),
        ("resume", {"novelty": "high"}, "'novelty'"),
        ("iterative", {}, "empty order"),
        ("iterative", {"order": []}, "empty order"),
        ("iterative", {"order": ["a", "ghost"]}, "'order': there is no agent 'ghost'"),
        ("identity", {"lead": "ghost"}, "'lead': there is no agent 'ghost'"),
        ("conversational", {"lead": "ghost"}, "'lead': there is no agent 'ghost'"),
        ("default", {"agent": "ghost"}, "'agent': there is no agent 'ghost'"),
        ("default", {"confidence": 2}, "'confidence'"),
        ("semantic", {"top": 0}, "'top'"),
        ("semantic", {"score": "cosine"}, "'score'"),
        ("smalltalk", {"agent": "ghost"}, "'agent': there is no agent 'ghost'"),
        ("contextual", {"general": "ghost"}, "'general': there is no agent 'ghost'"),
        ("contextual", {"nobody": 1.5}, "'nobody'"),
        ("clarify", {"choices": 1}, "'choices'"),
        ("clarify", {"only": "asking"}, "'only'"),
        ("clarify", {"question": ""}, "'question'"),
    ],
)
def test_what_is_wrong_is_named_with_a_fix(selector: str, options: dict[str, Any], says: str) -> None:
    """B3, and every mistake of a policy when it is loaded."""
    with pytest.raises(PolicyError) as caught:
        made(selector, options)
    assert says in caught.value.problem
    assert "'stage'" in caught.value.problem
    assert caught.value.fix


def test_known_agents_are_listed_in_short() -> None:
    crowd = AgentTree([AgentCard(name="root"), *(AgentCard(name=f"a{i}", parent="root") for i in range(500))])
    with pytest.raises(PolicyError, match="and 481 more") as caught:
        made("identity", {"lead": "ghost"}, tree=crowd)
    assert len(str(caught.value)) < 400


def test_a_bad_pattern_is_found() -> None:
    tree = AgentTree([AgentCard(name="root", patterns=(Pattern(regex="(?=x)"),))])
    with pytest.raises(PatternError, match="'root'"):
        made("patterns", tree=tree)


def test_patterns_are_compiled_once_for_all_stages() -> None:
    site = build_context(PolicySpec(), TREE, {})
    assert site.patterns() is site.patterns()


def test_a_selector_of_ones_own_gets_the_tree_and_its_options() -> None:
    stage = made("mine:make", {"word": "x"}, custom={"mine:make": Own})
    assert isinstance(stage.selector, Own)
    assert (stage.selector.tree, stage.selector.word, stage.options) == (TREE, "x", {"word": "x"})


def broken(tree: AgentTree, **options: Any) -> Selector:
    raise KeyError("secret plans")


class Sync:
    name = "sync"

    def select(self, request: SelectionRequest) -> Verdict:
        return Verdict(selector=self.name)


@pytest.mark.parametrize(
    ("factory", "options", "says"),
    [
        (Own, {"wrod": "x"}, "could not be made: it raised TypeError"),
        (broken, {}, "could not be made: it raised KeyError"),
        (lambda _tree: None, {}, "is not a selector"),
        (lambda _tree: Sync(), {}, "is not a selector"),
    ],
)
def test_one_that_cannot_be_made_is_named(factory: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(PolicyError, match=f"stage 'stage': the selector 'mine' {says}"):
        made("mine", options, custom={"mine": factory})


def test_one_that_refuses_its_options_itself_is_heard() -> None:
    def picky(tree: AgentTree) -> Selector:
        raise PolicyError("The moon is not full.")

    with pytest.raises(PolicyError, match=r"^The moon is not full\.$"):
        made("mine", custom={"mine": picky})


def test_a_built_in_name_cannot_be_taken() -> None:
    with pytest.raises(PolicyError, match="named 'resume', as a built-in one"):
        made("resume", custom={"resume": Own})


@pytest.mark.parametrize(
    ("nobody", "own", "resumes"),
    [(None, {}, True), (0.6, {}, False), (0.6, {"novelty": 0.9}, False), (None, {"novelty": 0.6}, False)],
)
async def test_what_one_stage_gives_to_nobody_another_does_not_resume(
    nobody: float | None, own: dict[str, Any], resumes: bool
) -> None:
    """C20: the number stands in one place, at the stage that judges."""
    judge = StageSpec(selector="contextual", options={} if nobody is None else {"nobody": nobody})
    site = build_context(PolicySpec(stages=(judge,)), TREE, {})
    selector = build(site, "stage", StageSpec(selector="resume", options={"stage": "contextual", **own})).selector
    request = request_for(TREE, "hm", head=Head(authors={"a": AuthorMark(spoke=2)}))
    judged = replace(request, verdicts=(Verdict(selector="contextual", reason="r", novelty=0.7),))
    assert ((await selector.select(judged)).agent == "a") is resumes


@pytest.mark.parametrize(("nobody", "asks"), [(0.85, True), (0.3, False)])
async def test_who_was_given_to_nobody_is_not_asked(nobody: float, asks: bool) -> None:
    """C20, E5"""
    stages = (StageSpec(selector="contextual", options={"nobody": nobody}),)
    selector = build(
        build_context(PolicySpec(stages=stages), PAIR, {}), "stage", StageSpec(selector="clarify", options=ONLY_ASKS)
    ).selector
    tie = tuple(Candidate(agent=name, score=0.5) for name in ("a", "b"))
    judged = Verdict(selector="contextual", reason="r", novelty=0.4, candidates=tie)
    request = replace(request_for(PAIR, "hm"), verdicts=(judged,))
    assert ((await selector.select(request)).outcome == "clarify") is asks


WORDED = AgentTree([AgentCard(name="root"), AgentCard(name="a", parent="root", examples=("say a",))])


@pytest.mark.parametrize("selector", ["semantic", "contextual", "clarify"])
def test_without_words_nothing_of_meaning_is_made(selector: str) -> None:
    site = build_context(PolicySpec(), TREE, {}, lambda: pytest.fail("made"))
    build(site, "stage", StageSpec(selector=selector))
    assert site.made() is None


@pytest.mark.parametrize("selector", ["semantic", "smalltalk", "contextual", "clarify"])
def test_meaning_is_made_once_for_all_stages(selector: str) -> None:
    made_of: list[Meaning] = []

    def make() -> Meaning:
        made_of.append(Meaning(WORDED, BagOfWordsEncoder()))
        return made_of[-1]

    site = build_context(PolicySpec(), WORDED, {}, make)
    assert site.made() is None
    for name in ("one", "two"):
        build(site, name, StageSpec(selector=selector))
    assert made_of == [site.made()]


def test_who_only_asks_needs_no_meaning() -> None:
    site = build_context(PolicySpec(), WORDED, {}, lambda: pytest.fail("made"))
    build(site, "stage", StageSpec(selector="clarify", options={"only": "question"}))
    build(site, "patterns", StageSpec(selector="patterns"))
    assert site.made() is None
