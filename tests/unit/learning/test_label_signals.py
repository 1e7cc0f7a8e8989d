"""Signals of the log (behaviour H2): each one, and a conversation in which the same signs mean no error."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from turnwise.facts.content import Content, DataPart, text_content
from turnwise.facts.events import USER, Actions, Branch, End, Event
from turnwise.facts.selections import Selection
from turnwise.facts.tree import AgentCard, AgentTree
from turnwise.learning.label_signals import SIGNALS, Found, SignalReader, label_of, triage_agents

TREE = AgentTree(
    [
        AgentCard(name="desk"),
        AgentCard(name="orders", parent="desk"),
        AgentCard(name="billing", parent="desk"),
        AgentCard(name="refunds", parent="billing"),
    ]
)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Log:
    """Writes the events of a session."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._now, self._messages = NOON, 0

    def _add(self, author: str, content: Content | None, actions: Actions, branch: str = "1") -> None:
        sequence = len(self.events) + 1
        event = Event(
            id=f"e{sequence}",
            author=author,
            invocation_id=f"i{self._messages}",
            created_at=self._now,
            content=content,
            actions=actions,
            sequence=sequence,
            branch=Branch(branch),
        )
        self.events.append(event)

    def user(self, text: str, agent: str, method: str = "contextual_route", outcome: str = "chosen", wait: float = 1) -> "Log":
        self._messages, self._now = self._messages + 1, self._now + timedelta(minutes=wait)
        selection = Selection(agent=agent, method=method, confidence=0.9, outcome=outcome)  # type: ignore[arg-type]
        self._add(USER, text_content(text, "user"), Actions(selection=selection), branch="")
        return self

    def reply(self, text: str, agent: str) -> "Log":
        """A message that answers a question of the invocation before it."""
        selection = Selection(agent=agent, method="reply", confidence=1.0)
        self._add(USER, text_content(text, "user"), Actions(selection=selection), branch="")
        return self

    def says(self, agent: str, text: str = "ok", reason: str = "completed", *, ends: bool = True) -> "Log":
        self._add(agent, text_content(text) if text else None, Actions(end=End(reason=reason) if ends else None))
        return self

    def hands(self, agent: str, to: str) -> "Log":
        self._add(agent, None, Actions(transfer_to=to))
        return self

    def does_task(self, flow: str, status: str = "successful") -> "Log":
        part = DataPart(name="task", data={"flow": flow, "task": "t", "status": status}, private=True)
        self._add(flow, Content(parts=(part,)), Actions())
        return self

    def found(self) -> list[tuple[int, str, str | None]]:
        return [(each.sequence, each.signal, each.agent) for each in signals(self.events)]


def signals(events: Iterable[Event]) -> list[Found]:
    reader = SignalReader(TREE)
    found = [each for event in events for each in reader.add(event)]
    return [*found, *reader.close()]


def asked(text: str = "Where is the invoice of May?", agent: str = "orders") -> Log:
    """A message that went to an agent, which answered."""
    return Log().user(text, agent).says(agent)


RIGHT: dict[str, Log] = {
    "clarified": Log().user("the invoice", "desk", "clarify", "clarify").says("desk").user("2", "billing", "clarified"),
    "chose_directly": asked().user("the invoice of May", "billing", "direct_routing").says("billing"),
    "handed_over": Log().user("the invoice of May", "orders").hands("orders", "billing").says("billing"),
    "meant_another": asked().user("No, I meant the bill", "billing").says("billing"),
    "said_again": asked().user("where is the invoice of may", "billing").says("billing"),
    "back_again": asked("Track it", "billing").user("and 10412", "orders").says("orders").user("hm, the bill", "billing"),
    "failed": Log().user("the invoice of May", "orders").says("orders", "", "failed"),
    "task_done": Log().user("write it", "orders").does_task("orders").says("orders"),
    "thanked": asked().user("Great, thank you so much!", "orders"),
    "replied": Log().user("a refund", "orders").says("orders", "Which one?", ends=False).reply("1002", "orders").says("orders"),
}
WRONG: dict[str, Log] = {
    "clarified: the user names neither": Log()
    .user("the invoice", "desk", "clarify", "clarify")
    .says("desk")
    .user("neither", "desk", "clarify_declined")
    .says("desk"),
    "chose_directly: the user has another request": asked().user("How do I close my account?", "billing", "direct_routing"),
    "chose_directly: a day later": asked().user("Where is the invoice of May?", "billing", "direct_routing", wait=1_440),
    "handed_over: by the root": Log().user("hello", "desk").hands("desk", "billing").says("billing"),
    "handed_over: by a triage agent to an agent below it": Log()
    .user("my money back", "billing")
    .hands("billing", "refunds")
    .says("refunds"),
    "handed_over: after the agent did its part": Log()
    .user("cancel it and pay me back", "orders")
    .says("orders", "Cancelled.", ends=False)
    .hands("orders", "billing")
    .says("billing"),
    "handed_over: it came back": Log()
    .user("where is it", "orders")
    .hands("orders", "billing")
    .hands("billing", "orders")
    .says("orders"),
    "handed_over: to an agent that fails": Log()
    .user("the invoice", "orders")
    .hands("orders", "billing")
    .says("billing", "", "completed"),
    "meant_another: a detail for the same agent": asked().user("No, I meant the invoice of June", "orders").says("orders"),
    "said_again: too short to mean anything": asked("yes please", "orders").user("yes please", "billing").says("billing"),
    "said_again: tomorrow": asked().user("Where is the invoice of May?", "billing", wait=1_440).says("billing"),
    "back_again: the request in between was another one": asked("Pay it", "billing")
    .user("and track 10412", "orders")
    .says("orders", "Whose?", ends=False)
    .reply("mine", "orders")
    .says("orders")
    .user("so, is it paid", "billing")
    .says("billing"),
    "back_again: to the root, for small talk": asked("Hello", "desk")
    .user("and 10412", "orders")
    .says("orders")
    .user("ok", "desk"),
    "failed: a fault, the same agent answers the same message": Log()
    .user("the invoice of May", "orders")
    .says("orders", "", "failed")
    .user("the invoice of May", "orders")
    .says("orders"),
    "task_done: by the agent after it": Log()
    .user("write it", "orders")
    .hands("orders", "billing")
    .does_task("billing")
    .says("billing", "done", ends=False)
    .hands("billing", "orders"),
    "task_done: it failed": Log().user("write it", "orders").does_task("orders", "failed").says("orders"),
    "thanked: but": asked().user("Thanks, but that is not what I asked", "orders").says("orders"),
    "thanked: the agent after it": Log()
    .user("cancel it", "orders")
    .says("orders", "Cancelled.", ends=False)
    .hands("orders", "billing")
    .says("billing")
    .user("thanks", "billing"),
    "replied: the question was another agent's": Log()
    .user("a refund", "orders")
    .says("orders", "One moment.", ends=False)
    .hands("orders", "billing")
    .says("billing", "Which one?", ends=False)
    .reply("1002", "billing")
    .says("billing"),
}


@pytest.mark.parametrize("signal", RIGHT)
def test_the_log_says_who_was_right(signal: str) -> None:
    log = RIGHT[signal]
    expected = {"right": log.events[0].actions.selection.agent, "wrong": None}  # type: ignore[union-attr]
    says = SIGNALS[signal].says  # type: ignore[index]
    (found,) = [each for each in log.found() if each[1] == signal]
    assert found[2] == expected.get(says, "billing")
    assert log.events[found[0] - 1].author == USER


@pytest.mark.parametrize("case", WRONG)
def test_the_same_signs_mean_no_error(case: str) -> None:
    signal = case.partition(":")[0]
    assert signal not in {each[1] for each in WRONG[case].found()}


def test_every_signal_is_tested_both_ways() -> None:
    """`not_corrected` needs labels, so it is tested with a store."""
    assert set(RIGHT) == {case.partition(":")[0] for case in WRONG} == set(SIGNALS) - {"not_corrected"}


def test_a_choice_of_the_caller_is_no_decision_to_learn_from() -> None:
    log = Log().user("the invoice", "orders", "direct_routing").hands("orders", "billing").says("billing")
    assert log.user("No, I meant the bill", "billing").found() == []


def test_agents_that_are_gone_and_the_default_agent_are_not_proposed() -> None:
    assert Log().user("the invoice", "orders").hands("orders", "gone").says("gone").found() == []
    assert asked().user("No, I meant hello", "desk").found() == []


def test_triage_agents_hand_over_nearly_everything() -> None:
    assert triage_agents({"front": 10, "orders": 100, "rare": 2}, {"front": 9, "orders": 20, "rare": 2}) == {"front"}


def one(signal: str, agent: str | None) -> Found:
    return Found(1, "orders", signal, agent)  # type: ignore[arg-type]


def test_signals_add_up_to_a_label() -> None:
    """H2: what weighs too little is unsure, so that it is reviewed and not learned."""
    strong = label_of("orders", [one("handed_over", "billing"), one("meant_another", "billing")])
    assert strong is not None
    assert (strong.agent, strong.weight, strong.unsure, strong.source) == ("billing", 0.88, False, "signal")
    assert strong.note == "handed_over, meant_another"
    weak = label_of("orders", [one("back_again", "billing")])
    assert weak is not None
    assert (weak.agent, weak.unsure) == ("billing", True)
    doubted = label_of("orders", [one("failed", None)])
    assert doubted is not None
    assert (doubted.agent, doubted.unsure) == (None, True)
    right = label_of("orders", [one("task_done", "orders"), one("replied", "orders")])
    assert right is not None
    assert (right.agent, right.unsure) == ("orders", False)


def test_signals_that_contradict_each_other_are_unsure_or_no_label() -> None:
    divided = label_of("orders", [one("handed_over", "billing"), one("task_done", "orders")])
    assert divided is not None
    assert (divided.agent, divided.unsure) == ("billing", True)
    pleased = [one("thanked", "orders"), one("replied", "orders")]
    assert label_of("orders", [*pleased, one("meant_another", "billing")]) is None
    assert label_of("orders", []) is None


def test_signals_weigh_less_than_a_label_that_somebody_gave() -> None:
    everything = [one(signal, "billing") for signal, effect in SIGNALS.items() if effect.says == "another"]
    label = label_of("orders", everything)
    assert label is not None
    assert label.weight == 0.95


def test_the_documentation_has_the_table() -> None:
    page = (Path(__file__).parents[3] / "docs" / "learning.md").read_text()
    for name, each in SIGNALS.items():
        assert f"| `{name}` | {each.says} | {each.weight:g} | {each.about} |\n" in page
