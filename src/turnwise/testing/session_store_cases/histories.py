"""Cases with random histories: appends, rewinds, forks of forks and deletions of several sessions, compared with a naive model.

The model keeps the visible events of each session in a list and folds them from nothing.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from turnwise.facts.events import USER, Event
from turnwise.facts.sessions import Session, SessionKey, fold
from turnwise.ports.stores import SessionStore
from turnwise.testing.session_store_cases.making import (
    LEASE,
    NOW,
    Case,
    asked,
    ended,
    fresh_id,
    fresh_key,
    message,
    opened,
    rewinds,
    said,
    writes,
)

STEPS = 40
MOST_SESSIONS = 6


@dataclass
class _Model:
    """A session as a naive store keeps it."""

    visible: list[Event]
    last: int
    """The number of its last event; a rewind does not take it back."""
    decisions: dict[int, str] = field(default_factory=dict)
    """The invocations of all decisions that can be found, by sequence number."""
    inherited: int = 0
    """The number of the last inherited event. A rewind hides inherited decisions; the session's own ones are still found."""
    receipts: dict[str, str] = field(default_factory=dict)
    """The invocations of its messages."""

    def session(self, key: SessionKey) -> Session:
        empty = Session(app=key.app, user=key.user, id=key.id, created_at=NOW, updated_at=NOW)
        return fold(empty, self.visible)

    def states(self, key: SessionKey) -> dict[str, str]:
        """Returns the states of the invocations that began in the session itself and that it shows."""
        began = {
            event.invocation_id
            for event in self.visible
            if event.author == USER and event.actions.selection is not None and (event.sequence or 0) > self.inherited
        }
        ends = {event.invocation_id: event.actions.end.reason for event in self.visible if event.actions.end is not None}
        open_ = self.session(key).head.invocations
        return {id_: open_[id_].state if id_ in open_ else ends[id_] for id_ in began}

    def append(self, events: Sequence[Event]) -> None:
        for event in events:
            self.last += 1
            if event.actions.rewind is not None:
                first = event.actions.rewind.from_sequence
                self.visible = [other for other in self.visible if (other.sequence or 0) < first]
                found = self.decisions.items()
                self.decisions = {at: id_ for at, id_ in found if at < first or at > self.inherited}
            self.visible.append(event.replace(sequence=self.last))
            if event.actions.selection is not None:
                self.decisions[self.last] = event.invocation_id

    def fork(self, key: SessionKey, before: str | None) -> "_Model":
        kept = self.visible
        if before is not None:
            place = next(at for at, event in enumerate(kept) if event.invocation_id == before)
            kept = kept[:place]
        open_ = _Model(kept, 0).session(key).head.invocations
        kept = [event for event in kept if event.invocation_id not in open_]
        decided = {event.sequence or 0: event.invocation_id for event in kept if event.actions.selection is not None}
        last = kept[-1].sequence or 0 if kept else 0
        return _Model(kept, last, decided, inherited=last)


class _History:
    """A random history of several sessions of one user."""

    def __init__(self, store: SessionStore, seed: int) -> None:
        self.store, self.chance, self.key = store, random.Random(seed), fresh_key()
        self.models: dict[str, _Model] = {}
        self.ids = 0

    def _key_of(self, id_: str) -> SessionKey:
        return self.key._replace(id=id_)

    def _some_session(self) -> str:
        return self.chance.choice(sorted(self.models))

    def _new_id(self) -> str:
        self.ids += 1
        return f"s-{self.ids:03}"

    async def run(self, steps: int) -> None:
        kinds = (self.append, self.append, self.append, self.begin, self.rewind, self.fork, self.fork, self.delete, self.repeat)
        for _ in range(steps):
            if not self.models:
                await self.create()
            await self.chance.choice(kinds)()
            await self.check(self._some_session() if self.models else None)
        for id_ in sorted(self.models):
            await self.check(id_)
        assert [info.key.id for info in (await self.store.list(self.key.app)).items] == sorted(self.models)

    async def create(self) -> None:
        id_ = self._new_id()
        await self.store.create(self._key_of(id_))
        self.models[id_] = _Model([], 0)

    def _some_events(self, id_: str) -> list[Event]:
        """Returns an invocation that ends, one that stays open, the end of an open one, or a change of the state."""
        open_ = sorted(self.models[id_].session(self._key_of(id_)).head.invocations)
        invocation, kind = fresh_id("i"), self.chance.randrange(5)
        name, value = self.chance.choice("abc"), self.chance.choice((1, 2, None))
        if kind == 0 and open_:
            return [ended("help", "done", invocation=self.chance.choice(open_), state_delta={name: value})]
        if kind == 1:
            return [asked(invocation=invocation, agent=name)]
        if kind == 2:
            return [writes({name: value}) for _ in range(self.chance.randint(1, 7))]
        middle = [said("help", "so", invocation=invocation) for _ in range(self.chance.randint(0, 3))]
        return [
            asked(invocation=invocation, agent=name),
            *middle,
            ended("help", "x", invocation=invocation, state_delta={name: 3}),
        ]

    async def append(self) -> None:
        id_ = self._some_session()
        events = self._some_events(id_)
        await self.store.append(await opened(self.store, self._key_of(id_)), events)
        self.models[id_].append(events)

    async def begin(self) -> None:
        id_, invocation, sent = self._some_session(), fresh_id("i"), message()
        events = [asked(invocation=invocation)]
        session = await opened(self.store, self._key_of(id_))
        begun = await self.store.begin(session, LEASE, sent, events, queue_limit=None)
        end = [ended("help", "hi", invocation=invocation)]
        await self.store.append(begun, end, release=True)
        self.models[id_].append([*events, *end])
        self.models[id_].receipts[sent.id] = invocation

    async def rewind(self) -> None:
        id_ = self._some_session()
        model = self.models[id_]
        if not model.visible:
            return
        events = [rewinds(self.chance.choice(model.visible).sequence or 1, fresh_id("i"))]
        if self.chance.random() < 0.5:
            invocation = fresh_id("i")
            events += [asked(invocation=invocation), ended(invocation=invocation, state_delta={"a": 9})]
        await self.store.append(await opened(self.store, self._key_of(id_)), events)
        model.append(events)
        if self.chance.random() < 0.2:
            await self.store.maintenance.finish_deletions()

    async def fork(self) -> None:
        if len(self.models) == MOST_SESSIONS:
            return
        id_, new_id = self._some_session(), self._new_id()
        invocations = sorted({event.invocation_id for event in self.models[id_].visible})
        before = self.chance.choice(invocations) if invocations and self.chance.random() < 0.5 else None
        await self.store.fork(self._key_of(id_), new_id, before_invocation=before)
        self.models[new_id] = self.models[id_].fork(self._key_of(id_), before)

    async def delete(self) -> None:
        id_ = self._some_session()
        await self.store.delete(self._key_of(id_))
        del self.models[id_]
        if self.chance.random() < 0.5:
            await self.store.maintenance.finish_deletions()
        assert await self.store.open(self._key_of(id_)) is None
        assert await self.store.events(self._key_of(id_), hidden=True) == []

    async def repeat(self) -> None:
        """Appends a visible event again, also an inherited one: nothing changes."""
        id_ = self._some_session()
        if self.models[id_].visible:
            event = self.chance.choice(self.models[id_].visible)
            await self.store.append(await opened(self.store, self._key_of(id_)), [event])

    async def check(self, id_: str | None) -> None:
        if id_ is None:
            return
        store, key, model = self.store, self._key_of(id_), self.models[id_]
        session, expected = await opened(store, key), model.session(key)
        shown = [(event.sequence, event.id) for event in await store.events(key)]
        assert shown == [(event.sequence, event.id) for event in model.visible]
        assert (session.last_sequence, session.head, session.state) == (model.last, expected.head, expected.state)
        last = [event.sequence for event in await store.events(key, last=3)]
        assert last == [event.sequence for event in model.visible[-3:]]
        found = (await store.decisions.search(key.app, key=key, limit=500)).items
        assert {one.sequence: one.invocation_id for one in found} == model.decisions
        await self.check_states(key, model)
        for message_id, invocation in model.receipts.items():
            receipt = await store.inbox.receipt(key, message_id)
            assert receipt is not None
            assert receipt.invocation_id == invocation

    async def check_states(self, key: SessionKey, model: _Model) -> None:
        decisions, states, after = self.store.decisions, dict[str, str | None](), None
        while True:
            page = await decisions.invocations(key.app, user=key.user, key=key, after=after, limit=3)
            states |= {info.invocation_id: info.state for info in page.items}
            if (after := page.next) is None:
                break
        assert states == model.states(key)
        assert await decisions.count_invocations(key.app, user=key.user, key=key) == len(states)


async def _random_histories(store: SessionStore, seeds: Sequence[int], steps: int = STEPS) -> None:
    for seed in seeds:
        try:
            await _History(store, seed).run(steps)
        except AssertionError as error:
            error.add_note(f"The history's seed is {seed}.")
            raise


async def short_histories_are_as_in_a_naive_store(store: SessionStore) -> None:
    """A24, A30, A33, A44"""
    await _random_histories(store, range(8), 12)


async def long_histories_are_as_in_a_naive_store(store: SessionStore) -> None:
    """A24, A30, A33, A44"""
    await _random_histories(store, range(100, 104), 60)


async def an_inherited_event_is_not_stored_again(store: SessionStore) -> None:
    """A33, A44: also in a fork of a fork, and after the deletion of the session that wrote it."""
    key = fresh_key()
    events = [asked(), ended(text="hi")]
    await store.append(await store.create(key), events)
    for id_ in ("one", "two"):
        copy = await store.fork(key, id_)
        after = await store.append(copy, [events[1]])
        assert (after.last_sequence, after.revision) == (copy.last_sequence, copy.revision)
        await store.delete(key)
        assert await store.append(after, events) == after
        later = await store.append(after, [*events, said("help", "new")])
        assert [event.text for event in await store.events(copy.key)][:2] == ["hello", "hi"]
        assert later.last_sequence == copy.last_sequence + 1
        key = copy.key


CASES: tuple[Case, ...] = (
    short_histories_are_as_in_a_naive_store,
    long_histories_are_as_in_a_naive_store,
    an_inherited_event_is_not_stored_again,
)
