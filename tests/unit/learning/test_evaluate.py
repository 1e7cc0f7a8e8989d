"""Cases are decided as in use (behaviours E3, E9)."""

import asyncio
from collections.abc import Sequence

import pytest

from turnwise.facts.cards import AgentCard
from turnwise.facts.selections import Candidate, Verdict
from turnwise.facts.sessions import Head
from turnwise.facts.tree import AgentTree
from turnwise.learning.cases import Case, Turn
from turnwise.learning.evaluate import History, count, evaluate
from turnwise.learning.measures import Outcome
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import policy_from

TREE = AgentTree([AgentCard(name="root"), AgentCard(name="a", parent="root"), AgentCard(name="b", parent="root")])


class Scripted:
    """Chooses the agent that the message names, asks on `?`, abstains otherwise; keeps the heads it saw."""

    name = "scripted"

    def __init__(self, heads: list[Head]) -> None:
        self._heads = heads

    async def select(self, request: SelectionRequest) -> Verdict:
        self._heads.append(request.head)
        ranked = (Candidate(agent="b", score=0.4), Candidate(agent="a", score=0.3), Candidate(agent="root", score=0.9))
        if request.text == "?":
            return Verdict(selector="scripted", outcome="clarify", candidates=ranked)
        if request.text in TREE:
            return Verdict(
                selector="scripted", outcome="chosen", agent=request.text, method="named", confidence=0.8, candidates=ranked
            )
        return Verdict(selector="scripted", candidates=ranked)


async def decided(
    cases: Sequence[Case], history: History = "own", default: str | None = None
) -> tuple[list[Outcome], list[Head]]:
    heads: list[Head] = []
    policy = policy_from({"stages": ["scripted"], "default": default})
    cascade = Cascade(policy, TREE, {"scripted": lambda _tree: Scripted(heads)})
    return await evaluate(cascade, cases, history=history), heads


def single(text: str, agent: str | None) -> Case:
    return Case((Turn("", text, agent),))


def dialogue(*turns: tuple[str, str, str | None], name: str = "d") -> Case:
    return Case(tuple(Turn(*turn) for turn in turns), name)


async def test_the_default_agent_and_a_question_are_nobody() -> None:
    """E3: the best of those who were ranked stays known; the default agent is never among them."""
    outcomes, _ = await decided([single("a", "a"), single("hm", None), single("?", None), single("root", None)])
    assert [outcome.chosen for outcome in outcomes] == ["a", None, None, None]
    assert all(outcome.right for outcome in outcomes)
    assert outcomes[0].ranked == (("a", 0.8), ("b", 0.4))
    assert outcomes[1].ranked == outcomes[2].ranked == (("b", 0.4), ("a", 0.3))
    assert [outcome.method for outcome in outcomes] == ["named", "default_fallback", "clarify", "named"]
    assert outcomes[0].novelty == pytest.approx(0.2)


async def test_a_case_may_name_the_default_agent() -> None:
    """E3: then it is somebody, and right when it got the message."""
    outcomes, _ = await decided([single("hm", "b"), single("a", "b")], default="b")
    assert [(outcome.chosen, outcome.right, outcome.best) for outcome in outcomes] == [("b", True, "b"), ("a", False, "a")]


async def test_on_its_own_history_the_chosen_agent_spoke() -> None:
    """E3: the line before a message is the answer of the agent that was chosen, right or wrong."""
    _, heads = await decided([dialogue(("", "b", "a"), ("What day?", "hm", "a"), ("Fine.", "a", "a"))])
    assert (heads[0].active_agent, heads[0].turns) == (None, 0)
    assert (heads[1].active_agent, heads[1].last_reply, heads[1].turns) == ("b", "What day?", 1)
    assert [(each.message, each.agent) for each in heads[1].recent] == [("b", "b")]
    assert (heads[2].active_agent, heads[2].last_reply) == ("root", "Fine.")
    assert heads[2].invocations == {}


async def test_on_the_true_history_the_right_agent_spoke() -> None:
    """E3: where nobody knows, the last known goes on."""
    _, heads = await decided([dialogue(("", "b", "a"), ("1", "b", None), ("2", "hm", "b"), ("3", "hm", "a"))], "true")
    assert [head.active_agent for head in heads] == [None, "a", "a", "b"]


async def test_before_the_first_known_turn_the_policy_goes_on_with_its_own() -> None:
    """E3: nothing better is known."""
    _, heads = await decided([dialogue(("", "b", None), ("1", "hm", "a"))], "true")
    assert [head.active_agent for head in heads] == [None, "b"]


async def test_a_greeting_is_the_roots_and_silence_is_an_answer() -> None:
    """E3: an agent whose words are not in the data spoke all the same."""
    _, heads = await decided([dialogue(("Hello, how can I help?", "b", "b"), ("", "hm", "b"))])
    assert (heads[0].active_agent, heads[0].last_reply) == ("root", "Hello, how can I help?")
    assert (heads[1].active_agent, heads[1].last_reply.strip()) == ("b", "")


async def test_what_was_offered_is_in_the_head() -> None:
    """E3, E5: after a question which it is, the next decision knows what was offered; on the true history there was none."""
    talk = [dialogue(("", "?", "a"), ("Did you mean b or a?", "a", "a"))]
    assert (await decided(talk))[1][1].offered == ("b", "a", "root")
    assert (await decided(talk, "true"))[1][1].offered == ()


async def test_dialogues_do_not_know_of_each_other() -> None:
    """E3: each begins anew, also under the same id, and keeps a name of its own."""
    outcomes, heads = await decided([dialogue(("", "a", "a")), dialogue(("", "b", None)), single("a", "a")])
    assert [head.turns for head in heads] == [0, 0, 0]
    assert [(outcome.dialogue, outcome.turn, outcome.scored) for outcome in outcomes] == [
        ("d", 0, True),
        ("d (2)", 0, False),
        (None, 0, True),
    ]


async def test_every_decision_is_told_and_the_same_twice() -> None:
    """E9: times aside."""
    cases = [dialogue(("", "a", "a"), ("1", "hm", "b")), single("?", None)]
    told: list[None] = []
    heads: list[Head] = []
    cascade = Cascade(policy_from({"stages": ["s"]}), TREE, {"s": lambda _tree: Scripted(heads)})
    once = await evaluate(cascade, cases, step=lambda: told.append(None))
    again = await evaluate(cascade, cases)
    assert len(told) == count(cases) == 3
    assert [outcome._replace(ms=0) for outcome in once] == [outcome._replace(ms=0) for outcome in again]
    assert all(outcome.ms > 0 for outcome in once)


async def test_it_can_be_stopped_though_decisions_wait_for_nothing() -> None:
    """E3: Ctrl-C cancels the task; it has to notice."""
    heads: list[Head] = []
    cascade = Cascade(policy_from({"stages": ["s"]}), TREE, {"s": lambda _tree: Scripted(heads)})
    task = asyncio.create_task(evaluate(cascade, [single("a", "a")] * 50))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(heads) < 50
