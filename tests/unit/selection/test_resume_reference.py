"""The reference's rule by marks, beside a scan of the whole log (A1 to A5, A9)."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st
from resume_play import asks, card, event, head_of, says

from turnwise.facts.events import Await, End, Event
from turnwise.facts.tree import AgentTree
from turnwise.selection.eligibility import eligible
from turnwise.selection.resume import Resume
from turnwise.testing.selector_suite import request_for

# The reference's rule, as it is written there: every event from the newest to the oldest, every chain walked anew.


def transferable(tree: AgentTree, name: str) -> bool:
    at: str | None = name
    while at is not None:
        if tree.card(at).kind != "llm" or tree.card(at).disallow_transfer_to_parent:
            return False
        at = tree.card(at).parent
    return True


def naive_scan(tree: AgentTree, log: Sequence[Event]) -> str:
    for each in reversed(log):
        for author in (each.actions.transfer_to, each.author):
            if author is not None and author != "user" and author in tree and transferable(tree, author):
                return author
    return tree.root


NAMES = ["root", "n1", "n2", "n3", "n4", "n5"]


@st.composite
def trees(draw: st.DrawFn) -> AgentTree:
    flags = st.integers(0, 3).map(lambda number: number == 0)
    kinds = st.sampled_from(["llm", "llm", "llm", "llm", "function", "sequential"])
    return AgentTree(
        card(
            name,
            draw(st.sampled_from(NAMES[:index])) if index else None,
            kind=draw(kinds),
            disallow_transfer_to_parent=draw(flags),
            disallow_transfer_to_peers=draw(flags),
        )
        for index, name in enumerate(NAMES)
    )


AUTHORS = st.sampled_from([*NAMES, "ghost"])
EVENTS = st.one_of(
    st.builds(says, AUTHORS),
    st.just(event("user", "x")),
    st.builds(asks, AUTHORS, st.sampled_from(["i1", "i2"])),
    st.builds(lambda giver, target: event(giver, None, transfer_to=target), AUTHORS, AUTHORS),
    st.builds(lambda agent: event(agent, "?", awaits=Await(id="w")), AUTHORS),
    st.builds(lambda agent: event(agent, "bye", end=End()), AUTHORS),
)


@given(trees(), st.lists(EVENTS, max_size=12))
@settings(max_examples=100)
def test_the_adk_rule_chooses_as_a_scan_of_the_whole_log(tree: AgentTree, log: list[Event]) -> None:
    """A1 to A5, A9: from the head's marks alone, for any log without errors and silent turns."""
    request = request_for(tree, "x", head=head_of(log))
    coroutine = Resume(rule="adk").select(replace(request, eligible=eligible(tree).continuing))
    with pytest.raises(StopIteration) as done:
        coroutine.send(None)
    assert (done.value.value.agent or tree.root) == naive_scan(tree, log)
