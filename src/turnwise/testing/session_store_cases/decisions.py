"""Cases of the search of decisions: its order, its pages, its filters, and the words of messages."""

from datetime import timedelta
from typing import Any

from turnwise.facts.events import Event
from turnwise.facts.selections import Selection
from turnwise.facts.sessions import SessionKey
from turnwise.ports.decisions import DecisionFilter, Version
from turnwise.ports.stores import SessionStore
from turnwise.testing.session_store_cases.making import NOW, Case, asked, ended, fresh_key, told


async def decisions_are_found_across_sessions(store: SessionStore) -> None:
    """C15, E1"""
    key = fresh_key()
    other = key._replace(user="user-2", id="session-2")
    for each, invocation, agent in ((key, "i-1", "help"), (other, "i-2", "sales"), (key, "i-3", "sales")):
        session = await store.open(each) or await store.create(each)
        await store.append(session, [asked(f"text {invocation}", invocation=invocation, agent=agent), ended(agent)])
    await told(store, fresh_key(), "i-4")
    found = (await store.decisions.search(key.app)).items
    assert [(d.key, d.sequence, d.invocation_id, d.text) for d in found] == [
        (key, 3, "i-3", "text i-3"),
        (other, 1, "i-2", "text i-2"),
        (key, 1, "i-1", "text i-1"),
    ]
    (event, *_) = await store.events(key)
    assert found[-1].selection == event.actions.selection
    assert (found[-1].created_at, found[-1].label) == (event.created_at, None)

    async def ids(**filters: object) -> list[str]:
        page = await store.decisions.search(key.app, **filters)  # type: ignore[arg-type]
        return [decision.invocation_id for decision in page.items]

    assert await ids(key=key) == ["i-3", "i-1"]
    assert await ids(user="user-1") == ["i-3", "i-1"]
    assert await ids(user="user-2") == ["i-2"]
    assert await ids(user="user-2", key=key) == await ids(user="nobody") == await ids(key=fresh_key()) == []
    sales = DecisionFilter(agent="sales")
    assert await ids(user="user-1", filter=sales) == ["i-3"]
    assert await ids(filter=sales) == ["i-3", "i-2"]
    assert await ids(filter=sales, key=key) == ["i-3"]
    assert await ids(filter=DecisionFilter(method="resume")) == ["i-3", "i-2", "i-1"]
    assert await ids(filter=DecisionFilter(method="pattern")) == await ids(filter=DecisionFilter(agent="nobody")) == []


async def one_decision_is_found_by_its_place(store: SessionStore) -> None:
    """E1"""
    key = fresh_key()
    await told(store, key, "i-1", "i-2")
    await store.decisions.label(key, 3, "sales")
    every = (await store.decisions.search(key.app)).items
    assert [await store.decisions.find(key, sequence) for sequence in (3, 1)] == list(every)
    assert every[0].label == "sales"
    for where, sequence in ((key, 2), (key, 99), (fresh_key(), 1), (key._replace(user="user-2"), 1)):
        assert await store.decisions.find(where, sequence) is None


async def decisions_are_paged(store: SessionStore) -> None:
    """E1"""
    key = fresh_key()
    await told(store, key, *(f"i-{n}" for n in range(7)))
    for wanted in ({}, {"user": key.user}, {"key": key}, {"filter": DecisionFilter(words="hello", agent="help")}):
        for oldest_first in (False, True):
            found: list[str] = []
            after = None
            while True:
                page = await store.decisions.search(key.app, after=after, limit=3, oldest_first=oldest_first, **wanted)
                found += [decision.invocation_id for decision in page.items]
                if (after := page.next) is None:
                    break
            assert found == [f"i-{n}" for n in (range(7) if oldest_first else reversed(range(7)))], wanted
    assert (await store.decisions.search(key.app, limit=7)).next is None


async def decisions_are_read_without_their_records(store: SessionStore) -> None:
    """H2: for a report over many of them; in a session alike."""
    key = fresh_key()
    await write(store, key, decided("i-1", reason="It spoke last.", segment="voice"))
    for session in (None, key):
        (whole,) = (await store.decisions.search(key.app, key=session)).items
        (brief,) = (await store.decisions.search(key.app, key=session, brief=True)).items
        assert (whole.selection.reason, whole.selection.segment) == ("It spoke last.", "voice")
        assert (brief.selection.reason, brief.selection.segment) == ("", None)
        for name in ("agent", "method", "confidence", "outcome", "fingerprint"):
            assert getattr(brief.selection, name) == getattr(whole.selection, name)
        assert whole._replace(selection=brief.selection) == brief


async def write(store: SessionStore, key: SessionKey, *events: Event) -> None:
    await store.append(await store.open(key) or await store.create(key), events)


def decided(invocation: str, text: str = "hello", *, minute: int = 0, **fields: Any) -> Event:
    """A message that was decided so many minutes after `NOW`."""
    values: dict[str, Any] = {"agent": "help", "method": "resume", "confidence": 0.5, "fingerprint": "f-1"} | fields
    event = asked(text, invocation=invocation)
    actions = event.actions.replace(selection=Selection(**values))
    return event.replace(actions=actions, created_at=NOW + timedelta(minutes=minute))


async def found(store: SessionStore, app: str, *, key: SessionKey | None = None, user: str | None = None, **fields: Any) -> str:
    """The ids of the invocations that match the fields, newest first, without `i-`, over all pages of one.

    The other order has the same ones.
    """
    of: dict[str, Any] = {"key": key, "user": user, "filter": DecisionFilter(**fields), "limit": 1}
    ids = {False: "", True: ""}
    for oldest_first in ids:
        after = None
        while True:
            page = await store.decisions.search(app, after=after, oldest_first=oldest_first, **of)
            ids[oldest_first] += "".join(decision.invocation_id.removeprefix("i-") for decision in page.items)
            if (after := page.next) is None:
                break
    assert ids[True] == ids[False][::-1], fields
    return ids[False]


async def decisions_are_filtered(store: SessionStore) -> None:
    """E1: by each field and by several, for all sessions, a user and a session alike."""
    key = fresh_key()
    await write(
        store,
        key,
        decided("i-1", minute=1, confidence=1.0, fingerprint="f-1"),
        decided("i-2", minute=2, confidence=0.71, outcome="clarify", agent="root", method="pattern"),
        decided("i-3", minute=3, confidence=0.7, fingerprint="f-2"),
        decided("i-4", minute=4, confidence=0.0, fingerprint="f-2", agent="sales"),
        decided("i-5", minute=5, confidence=0.93, fingerprint="f-3"),
    )
    for sequence, label in ((1, "help"), (2, "sales"), (4, "help")):
        await store.decisions.label(key, sequence, label)
    await store.decisions.put_version(key.app, Version("policy", "f-2", "usual", "{}", NOW))
    await store.decisions.put_version(key.app, Version("policy", "f-3", "usual", "{}", NOW))
    await store.decisions.put_version(key.app, Version("tree", "f-1", "usual", "{}", NOW))
    expected: tuple[tuple[dict[str, Any], str], ...] = (
        ({}, "54321"),
        ({"since": NOW + timedelta(minutes=3)}, "543"),
        ({"until": NOW + timedelta(minutes=3)}, "21"),
        ({"since": NOW + timedelta(minutes=2), "until": (NOW + timedelta(minutes=4)).replace(tzinfo=None)}, "32"),
        ({"since": NOW + timedelta(days=9)}, ""),
        ({"agent": "sales"}, "4"),
        ({"method": "pattern"}, "2"),
        ({"min_confidence": 0.71}, "521"),
        ({"min_confidence": 0.7}, "5321"),
        ({"max_confidence": 0.7}, "43"),
        ({"min_confidence": 0.7, "max_confidence": 0.93}, "532"),
        ({"min_confidence": 1.0}, "1"),
        ({"max_confidence": 0.0}, "4"),
        ({"min_confidence": 0.8, "max_confidence": 0.2}, ""),
        ({"min_confidence": 0.0, "max_confidence": 1.0}, "54321"),
        ({"outcome": "clarify"}, "2"),
        ({"outcome": "chosen"}, "5431"),
        ({"label": "help"}, "41"),
        ({"label": "nobody"}, ""),
        ({"labelled": True}, "421"),
        ({"labelled": False}, "53"),
        ({"contradicted": True}, "42"),
        ({"contradicted": True, "label": "help"}, "4"),
        ({"policy": "f-2"}, "43"),
        ({"policy": "usual"}, "543"),
        ({"policy": "unusual"}, ""),
        ({"policy": "usual", "agent": "help", "min_confidence": 0.9}, "5"),
        ({"agent": "help", "method": "resume", "labelled": True, "since": NOW + timedelta(minutes=1)}, "1"),
    )
    for fields, ids in expected:
        assert await found(store, key.app, **fields) == ids, fields
        assert await found(store, key.app, user=key.user, **fields) == ids, fields
        assert await found(store, key.app, key=key, **fields) == ids, fields
        assert await found(store, fresh_key().app, **fields) == "", fields
    await store.decisions.label(key, 2, "root")
    await store.decisions.label(key, 4, None)
    assert await found(store, key.app, labelled=True) == "21"
    assert await found(store, key.app, contradicted=True) == ""


async def decisions_are_found_by_words(store: SessionStore) -> None:
    """E1: by all words, in any order and case, and only those of the app, the user or the session that is searched."""
    key = fresh_key()
    other = key._replace(user="user-2")
    await write(
        store,
        key,
        decided("i-1", "Where is my PARCEL, please?"),
        decided("i-2", "my-parcel@example.com/label_7 is broken"),
        decided("i-3", "Über Straßen nach MÜNCHEN 東京 parcels"),
        decided("i-4", "a\0b " + "x" * 450),
        decided("i-5", ""),
    )
    await write(store, key._replace(id="session-2"), decided("i-6", "a parcel"))
    await write(store, other, decided("i-7", "my parcel"))
    await write(store, fresh_key(), decided("i-8", "my parcel"))
    for words, ids in (
        ("parcel", "7621"),
        ("parcel MY", "721"),
        ("my, parcel!", "721"),
        ("example COM label 7", "2"),
        ("münchen über", "3"),
        ("東京", "3"),
        ("munchen", ""),
        ("parce", ""),
        ("parcel nobody", ""),
        ("x" * 450, "4"),
        ("y" * 5_000, ""),
        ('" OR * NEAR(', ""),
        ("parcel\0my", "721"),
        ("...", ""),
    ):
        assert await found(store, key.app, words=words) == ids, words
        assert await found(store, key.app, user=key.user, words=words) == ids.replace("7", ""), words
        assert await found(store, key.app, key=key, words=words) == ids.replace("7", "").replace("6", ""), words
        assert await found(store, key.app, words=words, agent="sales") == "", words
        assert await found(store, fresh_key().app, words=words) == "", words
    await store.delete(key)
    assert await found(store, key.app, words="parcel") == "76"
    await write(store, key, decided("i-9", "parcel again"))
    assert await found(store, key.app, words="parcel") == "976"


async def a_fork_finds_what_it_inherits(store: SessionStore) -> None:
    """E1: with every filter, and nowhere else twice."""
    key = fresh_key()
    for number, text in enumerate(("one parcel", "two parcels", "a parcel"), 1):
        await write(store, key, decided(f"i-{number}", text), ended(invocation=f"i-{number}"))
    copy = await store.fork(key, "copy", before_invocation="i-3")
    again = await store.fork(copy.key, "again")
    await write(store, again.key, decided("i-4", "another parcel"))
    assert await found(store, key.app, key=again.key) == "421"
    assert await found(store, key.app, key=again.key, words="parcel") == "41"
    assert await found(store, key.app, key=copy.key, words="parcel", agent="help") == "1"
    assert await found(store, key.app, words="parcel") == await found(store, key.app, user=key.user, words="parcel") == "431"
    await store.delete(key)
    assert await found(store, key.app, words="parcel") == "4"
    assert await found(store, key.app, key=again.key, words="parcel") == "41"


async def versions_are_stored_once(store: SessionStore) -> None:
    """E1: a policy and a tree of one version, the first content of each."""
    app = fresh_key().app
    policy = Version("policy", "v-1", "usual", '{"stages":["resume"]}', NOW)
    await store.decisions.put_version(app, policy)
    await store.decisions.put_version(app, policy._replace(body="{}", created_at=NOW + timedelta(days=1)))
    tree = policy._replace(kind="tree", body="[]")
    await store.decisions.put_version(app, tree)
    assert await store.decisions.version(app, "policy", "v-1") == policy
    assert await store.decisions.version(app, "tree", "v-1") == tree
    assert await store.decisions.version(app, "policy", "v-2") is None
    assert await store.decisions.version(fresh_key().app, "policy", "v-1") is None


CASES: tuple[Case, ...] = (
    decisions_are_found_across_sessions,
    one_decision_is_found_by_its_place,
    decisions_are_paged,
    decisions_are_filtered,
    decisions_are_read_without_their_records,
    decisions_are_found_by_words,
    a_fork_finds_what_it_inherits,
    versions_are_stored_once,
)
