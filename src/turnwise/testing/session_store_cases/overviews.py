"""Cases of what is known of many sessions: counts of decisions, recent sessions, and lease holders."""

from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import DecisionCounts, DecisionFilter
from turnwise.ports.stores import Lease, SessionStore
from turnwise.testing.session_store_cases.making import Case, asked, ended, fresh_key, opened, rewinds, said, told


async def _conversations(store: SessionStore) -> tuple[SessionKey, SessionKey]:
    """Two sessions of two users: three decisions for help, one for sales; the first session is the newest."""
    key = fresh_key()
    other = key._replace(user="user-2", id="session-2")
    await told(store, key, "i-1")
    session = await store.create(other)
    await store.append(session, [asked("a refund", invocation="i-2", agent="sales"), ended("sales", invocation="i-2")])
    await told(store, key, "i-3", "i-4", text="where is it")
    return key, other


def _by_agent(counted: DecisionCounts) -> dict[str, int]:
    found: dict[str, int] = {}
    for cell in counted.cells:
        found[cell.agent] = found.get(cell.agent, 0) + cell.count
    return found


async def decisions_are_counted(store: SessionStore) -> None:
    """K2"""
    key, other = await _conversations(store)
    await store.decisions.label(other, 1, "help")
    every = await store.decisions.count(key.app)
    assert _by_agent(every) == {"help": 3, "sales": 1}
    assert (every.examined, every.complete) == (4, True)
    assert sum(part.count for part in every.times) == 4
    assert sorted(part.start for part in every.times) == [part.start for part in every.times]
    assert _by_agent(await store.decisions.count(key.app, user="user-2")) == {"sales": 1}
    assert _by_agent(await store.decisions.count(key.app, filter=DecisionFilter(agent="help"))) == {"help": 3}
    wrong = await store.decisions.count(key.app, filter=DecisionFilter(contradicted=True))
    assert [(cell.agent, cell.label, cell.count) for cell in wrong.cells] == [("sales", "help", 1)]
    for nothing in (DecisionFilter(method="none"), DecisionFilter(outcome="clarify"), DecisionFilter(policy="none")):
        assert (await store.decisions.count(key.app, filter=nothing)).cells == ()
    assert (await store.decisions.count(fresh_key().app)).examined == 0


async def sessions_are_listed_by_recency(store: SessionStore) -> None:
    """K2"""
    key, other = await _conversations(store)
    page = await store.decisions.recent_sessions(key.app)
    assert [(each.key, each.title, each.text, each.agent, each.state) for each in page.items] == [
        (key, "hello", "where is it", "help", "completed"),
        (other, "a refund", "a refund", "sales", "completed"),
    ]
    first = await store.decisions.recent_sessions(key.app, limit=1)
    second = await store.decisions.recent_sessions(key.app, limit=1, after=first.next)
    assert [each.key for each in (*first.items, *second.items)] == [key, other]
    assert second.next is None

    async def found(**wanted: str) -> list[SessionKey]:
        return [each.key for each in (await store.decisions.recent_sessions(key.app, **wanted)).items]  # type: ignore[arg-type]

    assert await found(user="user-2") == [other]
    assert await found(words="Refund") == [other]
    assert await found(words="it where") == [key]
    assert await found(words="?") == await found(words="nothing") == await found(state="failed") == []
    assert await found(state="completed") == [key, other]
    session = await opened(store, key)
    await store.append(session, [asked("more", invocation="i-5")])
    assert await found(state="running") == [key]
    await store.delete(key)
    assert await found() == [other]


async def a_long_session_hides_no_other(store: SessionStore) -> None:
    """K2: many decisions of one session come before the only one of another."""
    key = fresh_key()
    other = key._replace(user="user-2", id="old")
    await told(store, other, "i-0")
    await told(store, key, *(f"i-{n}" for n in range(1, 250)))
    page = await store.decisions.recent_sessions(key.app, limit=2)
    assert [each.key for each in page.items] == [key, other]
    assert page.next is None


async def a_rewound_session_stays_in_the_list(store: SessionStore) -> None:
    key = fresh_key()
    await told(store, key, "i-1", "i-2")
    await store.append(await opened(store, key), [rewinds(3, "i-2"), said("help")])
    assert [each.key for each in (await store.decisions.recent_sessions(key.app)).items] == [key]


async def holders_are_listed_with_their_leases(store: SessionStore) -> None:
    """A32"""
    key, holder = fresh_key(), fresh_key().id
    session = await store.create(key)
    held = await store.take(session, Lease(holder, 30.0), [])
    (found,) = [each for each in await store.leases.holders(key.app) if each.name == holder]
    assert (found.sessions, found.timeout_seconds) == (1, 30.0)
    assert found.silent_seconds < 30.0
    await store.leases.release(held)
    (found,) = [each for each in await store.leases.holders(key.app) if each.name == holder]
    assert found.sessions == 0


async def holders_say_which_agents_they_have(store: SessionStore) -> None:
    key, lease = fresh_key(), Lease(fresh_key().id, 30.0)

    async def agents(app: str) -> frozenset[str] | None:
        (found,) = [each for each in await store.leases.holders(app) if each.name == lease.holder]
        return found.agents

    await store.take(await store.create(key), lease, [])
    assert await agents(key.app) is None
    await store.leases.introduce(lease, key.app, ["orders", "billing"])
    assert await agents(key.app) == frozenset({"orders", "billing"})
    assert await agents(fresh_key().app) == frozenset(), "they are those of one app"
    await store.leases.introduce(lease, key.app, ["orders"])
    assert await agents(key.app) == frozenset({"orders"})


CASES: tuple[Case, ...] = (
    decisions_are_counted,
    sessions_are_listed_by_recency,
    a_long_session_hides_no_other,
    a_rewound_session_stays_in_the_list,
    holders_are_listed_with_their_leases,
    holders_say_which_agents_they_have,
)
