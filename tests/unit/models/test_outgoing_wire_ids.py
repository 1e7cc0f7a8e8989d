"""Ids of tool calls on the wire."""

import re

from hypothesis import given, strategies as st

from turnwise.facts.content import Seal, ToolCallPart
from turnwise.models.outgoing import WireIds


def call(call_id: str, own: str | None = None, provider: str = "here") -> ToolCallPart:
    seal = None if own is None else Seal(provider=provider, data={"call_id": own})
    return ToolCallPart(call_id=call_id, tool="t", seal=seal)


def test_the_providers_own_id_goes_back_to_it() -> None:
    ids = WireIds("here")
    assert ids.of_call(call("ours", "toolu_1")) == "toolu_1"
    assert ids.of_result("ours") == "toolu_1"
    assert WireIds("elsewhere").of_call(call("ours", "toolu_1")) == "ours"


def test_a_result_goes_to_the_latest_call_of_its_id() -> None:
    ids = WireIds("here")
    first = ids.of_call(call("c"))
    assert ids.of_result("c") == first == "c"
    second = ids.of_call(call("c"))
    assert ids.of_result("c") == second != first


def test_a_seal_that_is_none_of_ours_harms_nothing() -> None:
    part = ToolCallPart(call_id="c", tool="t", seal=Seal(provider="here", data={"call_id": 5}))
    assert WireIds("here").of_call(part) == "c"


@given(st.lists(st.tuples(st.text(max_size=60), st.none() | st.sampled_from(["call_0", "call_1"])), max_size=12))
def test_each_call_has_an_id_that_all_providers_take(calls: list[tuple[str, str | None]]) -> None:
    ids = WireIds("here")
    given_out = [ids.of_call(call(call_id, own)) for call_id, own in calls]
    assert len(set(given_out)) == len(calls)
    assert [wire for wire in given_out if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", wire)] == []
