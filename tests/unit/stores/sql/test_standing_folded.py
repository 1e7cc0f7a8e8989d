"""Whatever is appended, taken back and copied: the list says what reading the whole log again says."""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from hypothesis import given, settings, strategies as st

from turnwise import SqlSessionStore
from turnwise.facts.events import USER, Await, End, Event
from turnwise.facts.sessions import Session, SessionKey
from turnwise.testing.session_store_cases.making import NOW, asked, rewinds, said

KEYS = (SessionKey("app", "ann", "s"), SessionKey("app", "bob", "s"))
REASONS = ("completed", "failed", "cancelled", "limit:wait_seconds")
KINDS = ("ask", "ask", "ask and end", "say", "choose", "wait", "answer", "reply", "end", "rewind", "attempt")
FILTERS = (["running"], ["waiting"], ["limit:"], ["completed", "clarify"])
Standing = dict[int, tuple[str, int, datetime]]
"""States, where they ended (0 = they have not) and since when they stand so, by where the invocations began."""


class Step(NamedTuple):
    """One event to append. number: which wait, which reason, how far back. last: whether its append ends with it."""

    key: SessionKey
    kind: str
    invocation: str
    number: int
    last: bool


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(KEYS),
        st.sampled_from(KINDS),
        st.sampled_from(("i-1", "i-2")),
        st.integers(0, 3),
        st.booleans(),
    ),
    min_size=10,
    max_size=40,
)


def event_of(step: Step, sequence: int, at: int) -> Event:
    _, kind, id_, number, _ = step
    selection, wait = asked().actions.selection, f"w-{number % 2}"
    match kind:
        case "ask":
            made = asked(invocation=id_)
        case "ask and end":
            made = said(USER, "hm", invocation=id_, selection=selection, end=End(reason="clarify"))
        case "say":
            made = said("help", "well", invocation=id_)
        case "choose":
            made = said("help", invocation=id_, selection=selection, transfer_to="sales")
        case "wait":
            made = said("help", "sure?", invocation=id_, awaits=Await(id=wait))
        case "answer":
            made = said(USER, "yes", invocation=id_, answers=wait)
        case "reply":
            made = asked("yes", invocation=id_, answers=wait)
        case "end":
            made = said("help", invocation=id_, end=End(reason=REASONS[number]))
        case "rewind":
            made = rewinds(max(1, sequence - 3 * number - 1), id_)
        case _:
            made = rewinds(max(1, sequence - 1), id_)
    return made.replace(created_at=NOW + timedelta(seconds=at))


def stand(log: Iterable[Event]) -> dict[int, tuple[str, int]]:
    """How invocations stand, and where they ended, by where they began, for somebody who reads what is visible from the
    beginning.
    """
    known: dict[int, tuple[str, int]] = {}
    going: dict[str, int] = {}
    for event in log:
        id_, sequence, actions = event.invocation_id, event.sequence or 0, event.actions
        if event.author == USER and actions.selection and id_ not in going:
            going[id_] = sequence
        if id_ not in going:
            continue
        if event.author == USER:
            known[going[id_]] = "running", 0
        elif actions.awaits:
            known[going[id_]] = "waiting", 0
        if actions.end:
            known[going.pop(id_)] = actions.end.reason, sequence
    return known


async def check(store: SqlSessionStore, session: Session, before: Standing) -> Standing:
    """Asserts that the lists say how it stands after an append; gives that."""
    key, now = session.key, Standing()
    for place, stands in stand(await store.events(key)).items():
        as_before = place in before and before[place][:2] == stands
        now[place] = before[place] if as_before else (*stands, session.updated_at)
    for wanted in (None, key):
        page = await store.decisions.invocations("app", user=key.user, key=wanted)
        assert {info.sequence: (info.state, info.changed_at) for info in page.items} == {
            place: (state, since) for place, (state, _, since) in now.items()
        }
        assert [info.changed_at for info in page.items] == sorted((since for _, _, since in now.values()), reverse=True)
    for states in FILTERS:
        count = await store.decisions.count_invocations("app", user=key.user, states=states)
        assert count == sum(state in states or (states == ["limit:"] and state in REASONS[3:]) for state, _, _ in now.values())
    return now


async def played(steps: list[Step]) -> None:
    store = SqlSessionStore("sqlite://")
    try:
        sessions = {key: await store.create(key) for key in KEYS}
        known: dict[SessionKey, Standing] = {key: {} for key in KEYS}
        kept: dict[SessionKey, list[Event]] = {key: [] for key in KEYS}
        for at, step in enumerate(steps):
            key = step.key
            kept[key].append(event_of(step, sessions[key].last_sequence + len(kept[key]) + 1, at))
            if step.last:
                sessions[key] = await store.append(sessions[key], kept[key])
                kept[key] = []
                known[key] = await check(store, sessions[key], known[key])
        for key in KEYS:
            copy = await store.fork(key, "copy")
            assert (await store.decisions.invocations("app", user=key.user, key=copy.key)).items == ()
            assert await store.decisions.count_invocations("app", user=key.user) == len(known[key])
    finally:
        await store.close()


@settings(max_examples=200)
@given(STEPS)
def test_the_list_says_what_the_log_says(steps: list[Step]) -> None:
    asyncio.run(played(steps))
