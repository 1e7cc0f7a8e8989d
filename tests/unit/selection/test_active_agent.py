"""Who may go on with a conversation, and that nobody else is given it (A3, A10, A12, C9)."""

import asyncio
import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from turnwise.facts.cards import AgentCard, Pattern
from turnwise.facts.content import text_content
from turnwise.facts.events import Await
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Candidate, Selection, Verdict
from turnwise.facts.sessions import AuthorMark, Exchange, Head, OpenInvocation
from turnwise.facts.tree import AgentTree
from turnwise.matching.encoder.caching import CachingEncoder
from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.matching.patterns import PatternIndex
from turnwise.ports.model import ModelRequest
from turnwise.selection.cascade import Cascade
from turnwise.selection.clarify import Clarify
from turnwise.selection.model import ModelSelector
from turnwise.selection.named import named_policy
from turnwise.selection.patterns import Patterns
from turnwise.selection.policy import PolicySpec, SegmentSpec, StageSpec
from turnwise.selection.resume import Resume, conversation_state
from turnwise.testing.models import FunctionModel, calls
from turnwise.testing.selector_suite import request_for

WORDS = {
    "orders": ("where is my parcel", "track my package", "my order is late"),
    "billing": ("send me the invoice", "i want my money back", "you charged me twice"),
    "returns": ("return my shoes", "send my package back", "the item is broken"),
    "hours": ("when do you open", "are you open on sunday", "opening hours"),
    "tech": ("the app crashes", "my printer is broken", "i cannot log in"),
    "travel": ("book a flight to rome", "find me a hotel", "i need a ticket"),
    "food": ("order a pizza", "book a table for two", "is my pizza late"),
    "bank": ("what is my balance", "send my money to savings", "open an account"),
    "weather": ("will it rain on sunday", "how warm is rome", "is it sunny"),
    "jobs": ("are you hiring", "i need a job", "send my letter to you"),
}
MESSAGES = [
    "yes",
    "12345",
    "the blue one",
    "and on sunday?",
    "thanks",
    "send my package",
    "book it",
    "is my pizza late",
    "open my order",
]
REPLIES = ["Which one is it?", "Which order is it?", "Is it for sunday?", "It is done.", "Sorry, I cannot help with that.", ""]
CONTINUES = frozenset({"not_routable"})
"""Who may not be routed to may go on with what a transfer gave it: `contextual` routes, `resume` does not."""


@cache
def encoder() -> CachingEncoder:
    return CachingEncoder(OnnxEncoder())


def judge() -> FunctionModel:
    """Prefers the agent that has the conversation, as it is told to."""

    def answer(request: ModelRequest) -> Any:
        said = json.loads(request.messages[0].text.partition("\n")[2])
        schema: Any = request.tools[0].parameters
        offered = schema["properties"]["agent"]["enum"]
        active = said.get("agent that has the conversation")
        return calls("choose_agent", {"agent": active if active in offered else offered[0], "reason": "it has it"})

    return FunctionModel(answer)


def judging(_tree: AgentTree, **options: Any) -> ModelSelector:
    return ModelSelector(judge(), **options)


def with_model() -> PolicySpec:
    spec = named_policy("default-with-model", options={"model": {"model": "x"}})
    stages = [
        StageSpec(selector="judging", name="model", options={"margin": 0.9, "stage": "contextual"})
        if each.selector == "model"
        else each
        for each in spec.stages
    ]
    return spec.replace(stages=tuple(stages))


POLICIES = {
    "default": named_policy("default"),
    "asks often": named_policy(
        "default", options={"contextual": {"margin": 0.9, "nobody": 0.9}, "clarify": {"margin": 0.9, "evidence": 0.0}}
    ),
    "never asks": named_policy("default", options={"contextual": {"margin": 0.9, "nobody": 0.9}, "clarify": {"margin": 0.0}}),
    "with a model": with_model(),
    "several": named_policy("default").replace(several="root"),
    "a segment": named_policy("default").replace(
        segments=(SegmentSpec(when={"channel": "web"}, options={"contextual": {"nobody": 0.95, "margin": 0.5}}),)
    ),
}

flags = st.fixed_dictionaries({
    "resume": st.sampled_from(["auto", "auto", "never", "always"]),
    "disallow_transfer_to_parent": st.sampled_from([False, False, True]),
    "routable": st.sampled_from([True, True, True, False]),
    "kind": st.sampled_from(["function", "function", "llm", "sequential"]),
    "described": st.booleans(),
    "patterned": st.sampled_from([False, False, True]),
})  # fmt: skip
marks = st.builds(AuthorMark, **{key: st.integers(0, 30) for key in ("spoke", "handed", "failed", "skipped")})


@st.composite
def trees(draw: st.DrawFn) -> AgentTree:
    names = draw(st.permutations(list(WORDS)))[: draw(st.integers(2, 6))]
    cards = [AgentCard(name="root", description="Greets.", examples=("hello", "what can you do"))]
    for place, name in enumerate(names):
        given_: dict[str, Any] = dict(draw(flags))
        described, patterned = given_.pop("described"), given_.pop("patterned")
        parent = draw(st.sampled_from(["root", "root", *names[:place]]))
        pattern = (Pattern(regex=rf"\b{WORDS[name][0].split()[-1]}\b", confidence=0.8),) if patterned else ()
        cards.append(
            AgentCard(
                name=name, parent=parent, examples=WORDS[name], patterns=pattern,
                description=f"Is for {name}." if described else "", **given_
            )
        )  # fmt: skip
    return AgentTree(cards)


@st.composite
def heads(draw: st.DrawFn, tree: AgentTree) -> Head:
    every = [card.name for card in tree]
    authors = draw(st.dictionaries(st.sampled_from([*every, "ghost"]), marks, min_size=1, max_size=4))
    spoke = max(authors, key=lambda name: authors[name].spoke)
    past = st.builds(
        Exchange, message=st.sampled_from([text for texts in WORDS.values() for text in texts]),
        agent=st.sampled_from(every), before=st.sampled_from(REPLIES),
    )  # fmt: skip
    waits = draw(st.lists(st.sampled_from(every), max_size=2, unique=True))
    invocations = {
        f"i{number}": OpenInvocation(agent=name, state="waiting", began=number + 1, last=30, waits=((name, Await(id="w")),))
        for number, name in enumerate(waits)
    }
    return Head(
        authors=authors,
        active_agent=spoke if authors[spoke].spoke else None,
        last_reply=draw(st.sampled_from(REPLIES)),
        recent=tuple(draw(st.lists(past, max_size=4))),
        invocations=invocations,
    )


def may_not_go_on(tree: AgentTree, head: Head) -> set[str]:
    """The last speaker, when its card or its last turn plainly forbids that it goes on: told here once more, by the rules."""
    name = head.active_agent
    if name is None or name not in tree or any(mark.handed > head.authors[name].spoke for mark in head.authors.values()):
        return set()
    card, mark = tree.card(name), head.authors[name]
    forbidden = card.resume == "never" or (card.disallow_transfer_to_parent and card.resume != "always")
    return {name} if forbidden or mark.failed > mark.spoke else set()


def offered_in(selection: Selection) -> set[str]:
    question = next((verdict.question for verdict in selection.verdicts if verdict.question), None)
    return {str(choice) for verdict in selection.verdicts if question for choice in (each.agent for each in verdict.candidates)}


@settings(max_examples=60)
@given(st.data(), st.sampled_from(sorted(POLICIES)))
def test_nobody_that_is_passed_over_is_chosen_but_by_the_message_alone(data: st.DataObject, policy: str) -> None:
    """A10, A12, C9: whatever the tree, the permissions, the history, the message and the policy."""
    tree = data.draw(trees())
    cascade = Cascade(POLICIES[policy], tree, {"judging": judging}, encoder=encoder())
    context = MessageContext(channel="web")

    async def decided(head: Head, text: str) -> Selection:
        return await cascade.decide(head=head, message=text_content(text, "user"), context=context)

    async def check() -> None:
        await cascade.prepare()
        for _ in range(6):
            head = data.draw(heads(tree))
            text = data.draw(st.sampled_from(MESSAGES))
            found = await decided(head, text)
            passed = {each.agent for verdict in found.verdicts for each in verdict.passed_over if each.rule not in CONTINUES}
            passed |= may_not_go_on(tree, head)
            # Who waits for a reply goes on, whatever its permissions, and so does the composite that runs it.
            passed -= {name for open_ in head.invocations.values() for name in tree.chain(open_.agent)}
            if found.agent not in passed:
                continue
            opening = await decided(Head(), text)
            said = [(each.agent, each.method, [(v.selector, v.reason) for v in each.verdicts]) for each in (found, opening)]
            assert found.agent == opening.agent or found.agent in offered_in(opening), said

    asyncio.run(check())


TREE = AgentTree([
    AgentCard(name="root"),
    AgentCard(name="orders", parent="root", resume="never"),
    AgentCard(name="billing", parent="root"),
    AgentCard(name="hours", parent="root"),
])  # fmt: skip
TIED = Verdict(
    selector="contextual",
    candidates=(Candidate(agent="billing", score=0.5), Candidate(agent="orders", score=0.49)),
)


def had(name: str, **mark: int) -> Head:
    """The agent spoke last, with a question."""
    return Head(authors={name: AuthorMark(spoke=3, **mark)}, active_agent=name, last_reply="Which one?")


@pytest.mark.parametrize(
    ("head", "outcome"), [(had("orders"), "clarify"), (had("billing"), "abstained"), (had("billing", failed=4), "clarify")]
)
async def test_only_who_may_go_on_is_preferred_to_a_question(head: Head, outcome: str) -> None:
    """E5, A12"""
    request = replace(request_for(TREE, "open my order", head=head), verdicts=(TIED,))
    assert (await Clarify(only="question").select(request)).outcome == outcome


@pytest.mark.parametrize(("head", "agent"), [(had("orders"), "billing"), (Head(), "billing"), (had("hours"), "billing")])
async def test_a_model_is_not_told_of_who_may_not_go_on(head: Head, agent: str) -> None:
    """A12: it is asked to prefer the agent that has the conversation."""
    request = replace(request_for(TREE, "open my order", head=head), verdicts=(TIED,))
    verdict = await judging(TREE, margin=0.9).select(request)
    assert (verdict.method, verdict.agent) == ("model_choice", agent)


async def test_a_question_of_who_may_not_go_on_keeps_no_pattern_from_deciding() -> None:
    """A12, C9"""
    index = PatternIndex([("billing", "invoice", 0.8)])
    for head, outcome in ((had("orders"), "chosen"), (had("hours"), "abstained"), (had("hours", failed=4), "chosen")):
        request = request_for(TREE, "the invoice", head=head)
        assert (await Patterns(index, yields="asks").select(request)).outcome == outcome


async def test_who_failed_after_its_question_is_not_resumed_for_the_question() -> None:
    """A10: where a stage before found that."""
    request = request_for(TREE, "12345", head=had("hours", failed=4))
    assert (await Resume().select(request)).agent == "hours"  # alone, it goes by what was said before the failure
    passed = conversation_state(request).passed_over
    assert [each.rule for each in passed] == ["failed"]
    verdict = await Resume().select(replace(request, verdicts=(Verdict(selector="contextual", passed_over=passed),)))
    assert verdict.agent is None
    assert "hours" in {each.agent for each in verdict.passed_over}


async def test_others_in_the_conversation_do_not_help_who_may_not_go_on() -> None:
    """A12: "yes" is nobody's at an opening, also when the root was greeted before."""
    tree = AgentTree([
        AgentCard(name="root", examples=("hello", "what can you do")),
        AgentCard(name="orders", parent="root", examples=WORDS["orders"], resume="never"),
    ])  # fmt: skip
    cascade = Cascade(named_policy("default"), tree, encoder=encoder())
    authors = {"root": AuthorMark(spoke=17), "orders": AuthorMark(spoke=26)}
    head = Head(authors=authors, active_agent="orders", last_reply="Which one is it?")
    for said in (head, Head()):
        assert (await cascade.decide(head=said, message=text_content("yes", "user"))).agent == "root"


def test_a_failure_is_told_also_of_an_agent_that_is_not_routed_to() -> None:
    """A10: `resume`, which goes on with such agents, reads it there."""
    tree = AgentTree([AgentCard(name="root"), AgentCard(name="hours", parent="root", routable=False)])
    request = replace(request_for(tree, "x", head=had("hours", failed=4)), eligible=("root",))
    assert [each.rule for each in conversation_state(request).passed_over] == ["failed"]


def test_every_agent_that_waits_for_a_reply_may_go_on() -> None:
    """A42: also one whose invocation is not the newest."""
    waits = {
        f"i{number}": OpenInvocation(agent=name, state="waiting", began=number, last=9, waits=((name, Await(id="w")),))
        for number, name in enumerate(("orders", "billing"), 1)
    }
    head = had("orders").replace(invocations=waits)
    found = conversation_state(request_for(TREE, "x", head=head))
    assert (found.active, found.awaiting, found.passed_over) == ("orders", "billing", ())
