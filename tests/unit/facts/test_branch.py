"""Branches: order, sight and odd names (behaviour A41)."""

import json

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter, ValidationError

from turnwise.facts.events import NO_BRANCH, Branch, name_of, segment_of

NAMES = st.text(st.sampled_from("ab.~>#%/ é字\u202e\n"), max_size=6) | st.text(max_size=8)


def _segment(kind: str, name: str, number: int) -> str:
    return {"plain": segment_of(name), "parallel": f"~{segment_of(name)}", "counted": f"{segment_of(name)}#{number}"}[kind]


SEGMENTS = st.builds(_segment, st.sampled_from(["plain", "parallel", "counted"]), NAMES.filter(bool), st.integers(1, 3))


@st.composite
def branches(draw: st.DrawFn) -> Branch:
    branch = Branch.of_turn(draw(st.integers(1, 12)))
    for segment in draw(st.lists(SEGMENTS, max_size=4)):
        branch = branch.private_call(draw(NAMES), draw(NAMES)) if draw(st.booleans()) else branch.child(segment)
    return branch


@given(NAMES)
def test_a_name_survives_as_a_segment_and_forges_nothing(name: str) -> None:
    segment = segment_of(name)
    assert name_of(segment) == name_of(f"~{segment}") == name_of(f">{segment}#7") == name
    assert not set(segment) & set("/~>#")
    child = Branch.of_turn(1).child(segment)
    assert (child.is_private, child.is_in_parallel, len(child.segments)) == (False, False, 2)


@given(branches(), SEGMENTS)
def test_a_child_is_directly_below(branch: Branch, segment: str) -> None:
    child = branch.child(segment)
    assert (child.parent, child.last, child.below(branch)) == (branch, segment, segment)
    assert branch.holds(child)
    assert not child.holds(branch)
    assert branch.below(child) is None


@given(branches(), branches(), branches())
def test_holding_is_a_partial_order(one: Branch, other: Branch, third: Branch) -> None:
    assert one.holds(one)
    if one.holds(other) and other.holds(one):
        assert one == other
    chain = [third, third.child("x"), third.child("x").private_call("y", "z")]
    assert all(a.holds(b) for i, a in enumerate(chain) for b in chain[i:])
    if one.holds(other) and other.holds(third):
        assert one.holds(third)
    assert one.holds(other) == (one in other.with_ancestors())


@given(branches(), branches())
def test_the_part_below_leads_back(one: Branch, other: Branch) -> None:
    for above in one.with_ancestors():
        part = one.below(above)
        assert (part is None) == (above == one)
        assert part is None or above.child(part) == one
    assert (other.below(one) is not None) == (one.holds(other) and one != other)


@given(branches())
def test_ancestors_go_up_to_the_turn(branch: Branch) -> None:
    above = list(branch.with_ancestors())
    assert (above[0], len(above)) == (branch, len(branch.segments))
    assert [each.parent for each in above] == [*above[1:], NO_BRANCH]
    assert branch.is_of_turn(int(above[-1]))
    assert not branch.is_of_turn(int(above[-1]) + 10)


def test_turn_1_does_not_hold_turn_12() -> None:
    assert not Branch("1").holds(Branch("12/a"))
    assert not Branch("12").is_of_turn(1)
    assert Branch("12/a").below(Branch("1")) is None


def test_the_empty_branch_is_outside_of_all_runs() -> None:
    assert (NO_BRANCH.segments, NO_BRANCH.parent, NO_BRANCH.last, list(NO_BRANCH.with_ancestors())) == ((), "", "", [])
    assert NO_BRANCH.holds(NO_BRANCH)
    assert not NO_BRANCH.holds(Branch("1"))
    assert NO_BRANCH.sees(Branch("1/~a"))
    assert Branch("1").sees(NO_BRANCH)


@given(branches(), NAMES, NAMES)
def test_a_private_call_is_seen_only_inside_it(branch: Branch, agent: str, name: str) -> None:
    called = branch.private_call(agent, name)
    assert (called.caller, called.call_depth, name_of(called.last)) == (branch, branch.call_depth + 1, agent)
    assert called.is_private
    assert called.child("x").caller == branch
    assert not branch.sees(called)
    assert called.sees(branch)
    assert called.sees(called.child("x"))


@given(branches(), NAMES, NAMES)
def test_parallel_children_do_not_see_each_other_and_a_later_agent_sees_both(branch: Branch, one: str, other: str) -> None:
    left, right = branch.child(f"~{segment_of(one)}").child("x"), branch.child(f"~{segment_of(other)}")
    assert left.is_in_parallel
    assert (left.sees(right), right.sees(left)) == ((one == other,) * 2)
    assert branch.sees(left)
    assert Branch.of_turn(13).sees(left) == (not left.is_private)


@given(branches())
def test_a_branch_is_stored_as_its_text(branch: Branch) -> None:
    adapter = TypeAdapter(Branch)
    written = adapter.dump_json(branch)
    read = adapter.validate_json(written)
    assert (json.loads(written), read, type(read), hash(read)) == (str(branch), branch, Branch, hash(str(branch)))


def test_only_text_is_read_as_a_branch() -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Branch).validate_python(1, strict=True)
    assert TypeAdapter(Branch).json_schema() == {"type": "string"}


def test_a_step_key_names_its_run() -> None:
    assert Branch("1/a").step_key("model#1") == "1/a:model#1"
