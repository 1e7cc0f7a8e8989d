"""Conformance suite for `Definitions`: test cases that a test calls.

    @pytest.mark.parametrize("case", definition_store_suite.CASES, ids=lambda case: case.__name__)
    def test_my_store(case):
        asyncio.run(case(MyStore().definitions))

Each case uses new apps, so all cases may share one store; the test closes it. A case fails with AssertionError.
`SHARED_CASES` take two stores on the same data, like two processes.
"""

import asyncio
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from turnwise.facts.errors import CursorInvalid, DefinitionConflict, DefinitionSetChanged, StoreError
from turnwise.facts.tree import LearnedExample, Pattern, Skill
from turnwise.ports.decisions import Page
from turnwise.ports.definitions import (
    AnyDefinition,
    Author,
    Definition,
    DefinitionKey,
    Definitions,
    MadeByFactory,
    MadeByModel,
    MadeOfTemplates,
    MadeRemotely,
    PolicyDefinition,
    ReplyTemplate,
    Slot,
    Status,
    copied,
)

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
ANN = Author("ann", NOW, "First.")
BEN = Author("ben", NOW + timedelta(seconds=1), "Second.")

Case = Callable[[Definitions], Coroutine[Any, Any, None]]
SharedCase = Callable[[Definitions, Definitions], Coroutine[Any, Any, None]]


def fresh() -> str:
    """Returns a unique name of an app."""
    return f"app-{uuid.uuid4().hex[:12]}"


def full(name: str = "billing") -> Definition:
    """Returns a definition with every field."""
    return Definition(
        name=name,
        description="Invoices – Straße, 東京 🔑.",
        not_for="Parcels.",
        examples=("Where is my invoice?",),
        learned=(LearnedExample(text="What do I owe?", user="ada", session="s-1", sequence=3),),
        skills=(Skill(name="refund", examples=("Money back",)),),
        patterns=(Pattern(regex=r"\binvoice\b", confidence=0.9), Pattern(regex="bill", active=False, label="a bill")),
        tags=("money",),
        parent="front",
        roles=("staff",),
        disallow_transfer_to_parent=True,
        disallow_transfer_to_peers=False,
        resume="never",
        routable=True,
        enabled=True,
        time_limit=2.5,
        made_by=MadeByModel(kind="llm", model="fast", instructions="Help.", tools=("lookup",)),
    )


def same_content(one: AnyDefinition | None, other: AnyDefinition | None) -> bool:
    """Returns whether both are there and differ in nothing that their author wrote."""
    return one is not None and other is not None and (one.what, one.content) == (other.what, other.content)


async def put(store: Definitions, app: str, *new: AnyDefinition, author: Author = ANN) -> Sequence[AnyDefinition]:
    """Stores new versions after the newest ones."""
    expected = {}
    for each in new:
        newest = await store.get(app, each.what, each.name)
        expected[each.what, each.name] = newest.version if newest else 0
    return await store.put(app, new, expected, author)


async def _conflict(
    store: Definitions, app: str, new: Sequence[AnyDefinition], expected: Mapping[DefinitionKey, int]
) -> DefinitionConflict:
    try:
        await store.put(app, new, expected, BEN)
    except DefinitionConflict as error:
        return error
    raise AssertionError("A stale writer was not refused.")


async def _everything(store: Definitions, app: str) -> list[Any]:
    """Returns all that an app has, to compare."""
    return [
        await store.revision(app),
        await store.served(app),
        await store.list(app, "agent"),
        await store.list(app, "policy"),
        await store.changes(app),
    ]


async def a_new_app_has_nothing(store: Definitions) -> None:
    app = fresh()
    assert await store.revision(app) == 0
    served = await store.served(app)
    assert (served.revision, served.agents, served.policies, served.retired) == (0, (), (), ())
    assert await store.list(app, "agent") == Page((), None)
    assert await store.history(app, "agent", "a") == Page((), None)
    assert await store.changes(app) == Page((), None)
    assert await store.get(app, "agent", "a") is None
    assert await store.get_served(app, "policy", "main") is None
    assert await store.put(app, (), {}, ANN) == ()
    assert await store.revision(app) == 0


async def every_form_comes_back_as_it_was(store: Definitions) -> None:
    app = fresh()
    template = ReplyTemplate(text=("Hi {who}.", "Hello."), when={"vip": True}, slots=("who",), channels=("web",))
    new: list[AnyDefinition] = [
        full(),
        Definition(name="override", examples=()),
        Definition(name="used", made_by=MadeByFactory(use="parcels", options={"depth": [1, {"a": None}]})),
        Definition(name="far", made_by=MadeRemotely(remote="https://a.example/", headers={"X": "${TOKEN}"})),
        Definition(
            name="reply", made_by=MadeOfTemplates(kind="reply", templates=(template,), slots={"who": Slot(pattern="I am (.*)")})
        ),
        PolicyDefinition(policy={"use": "default", "options": {"semantic": {"min_score": 0.4}}}),
        PolicyDefinition(name="other", policy="contextual", status="draft"),
    ]
    stored = await put(store, app, *new)
    for wanted, given in zip(new, stored, strict=True):
        found = await store.get(app, wanted.what, wanted.name)
        assert found == given
        assert same_content(found, wanted)
        assert found is not None
        assert (found.version, found.revision, found.author, found.created_at, found.note) == (1, 1, "ann", NOW, "First.")
        assert found.status == wanted.status
    assert await store.revision(app) == 1


async def fields_of_a_newer_release_stay(store: Definitions) -> None:
    app = fresh()
    text = '{"name":"a","colour":"red","made_by":{"kind":"quantum","qubits":3},"skills":[{"name":"s","level":2}]}'
    await put(store, app, Definition.model_validate_json(text))
    found = await store.get(app, "agent", "a")
    assert isinstance(found, Definition)
    assert set(found.unknown_fields) == {"colour", "made_by", "skills.0.level"}
    assert found.content["made_by"] == {"kind": "quantum", "qubits": 3}
    assert found.content["colour"] == "red"
    await put(store, app, copied(found, "retired"))
    again = await store.get(app, "agent", "a")
    assert same_content(again, found)


async def a_put_of_several_is_one_change(store: Definitions) -> None:
    """F1."""
    app = fresh()
    await put(store, app, Definition(name="a", description="1"), Definition(name="b", description="1"))
    stored = await put(store, app, Definition(name="b", description="2"), PolicyDefinition(policy="default"), author=BEN)
    assert [(each.version, each.revision) for each in stored] == [(2, 2), (1, 2)]
    assert await store.revision(app) == 2
    served = await store.served(app)
    assert [(each.name, each.version) for each in served.agents] == [("a", 1), ("b", 2)]
    assert [(each.name, each.version) for each in served.policies] == [("main", 1)]


async def a_stale_put_changes_nothing(store: Definitions) -> None:
    """F1: the error names both versions."""
    app = fresh()
    await put(store, app, Definition(name="a", description="1"))
    await put(store, app, Definition(name="a", description="2"))
    before = await _everything(store, app)
    cases: list[tuple[Sequence[AnyDefinition], Mapping[DefinitionKey, int], tuple[int, int]]] = [
        ([Definition(name="a", description="3")], {("agent", "a"): 1}, (1, 2)),
        ([Definition(name="a", description="3")], {}, (0, 2)),
        ([Definition(name="new"), Definition(name="a")], {("agent", "a"): 1}, (1, 2)),
        ([Definition(name="b")], {("agent", "b"): 4}, (4, 0)),
        ([Definition(name="a")], {("policy", "a"): 2}, (0, 2)),
    ]
    for new, expected, versions in cases:
        error = await _conflict(store, app, new, expected)
        assert (error.expected, error.current) == versions
        assert await _everything(store, app) == before


async def a_put_may_expect_the_revision_that_it_was_checked_with(store: Definitions) -> None:
    """F3: two changes that fit what served before each need not fit together."""
    app = fresh()
    await store.put(app, [Definition(name="a")], {}, ANN, at=0)
    before = await _everything(store, app)
    for wrong in (0, 2):
        try:
            await store.put(app, [Definition(name="b")], {}, ANN, at=wrong)
        except DefinitionSetChanged:
            assert await _everything(store, app) == before
        else:
            raise AssertionError("A change was stored that was checked with another revision.")
    await store.put(app, [Definition(name="b")], {}, ANN, at=1)


async def two_versions_of_one_name_are_refused(store: Definitions) -> None:
    app = fresh()
    try:
        await store.put(app, [Definition(name="a"), Definition(name="a")], {}, ANN)
    except ValueError:
        assert await store.revision(app) == 0
        return
    raise AssertionError("A name got two versions at once.")


async def drafts_are_kept_but_not_served(store: Definitions) -> None:
    app = fresh()
    await put(store, app, Definition(name="a", description="1"), Definition(name="b", status="draft"))
    await put(store, app, Definition(name="a", description="2", status="draft"))
    served = await store.served(app)
    assert [(each.name, each.version) for each in served.agents] == [("a", 1)]
    newest = (await store.list(app, "agent")).items
    assert [(each.name, each.version, each.status) for each in newest] == [("a", 2, "draft"), ("b", 1, "draft")]
    found = await store.get_served(app, "agent", "a")
    assert found is not None
    assert found.version == 1
    assert await store.get_served(app, "agent", "b") is None


async def activating_retiring_and_rolling_back_are_new_versions(store: Definitions) -> None:
    """F6."""
    app = fresh()
    await put(store, app, Definition(name="a", description="1"))
    await put(store, app, Definition(name="a", description="2", status="draft"))
    steps: tuple[tuple[int, Status, str | None], ...] = (
        (2, "active", "2"),
        (1, "active", "1"),
        (1, "retired", None),
        (2, "active", "2"),
    )
    for version, status, wanted in steps:
        old = await store.get(app, "agent", "a", version)
        assert old is not None
        await put(store, app, copied(old, status))
        found = await store.get_served(app, "agent", "a")
        assert (found.description if isinstance(found, Definition) else None) == wanted
        assert [each.description for each in (await store.served(app)).agents] == ([wanted] if wanted else [])
    history = (await store.history(app, "agent", "a")).items
    assert [(each.version, each.status) for each in history] == [
        (6, "active"),
        (5, "retired"),
        (4, "active"),
        (3, "active"),
        (2, "draft"),
        (1, "active"),
    ]


async def changes_since_a_revision(store: Definitions) -> None:
    app = fresh()
    await put(store, app, Definition(name="a"), Definition(name="b"), Definition(name="c"), PolicyDefinition(policy="default"))
    seen = (await store.served(app)).revision
    assert (await store.served(app, after=seen))[1:] == ((), (), ())
    await put(store, app, Definition(name="a", tags=("x",)), Definition(name="b", status="retired"))
    await put(store, app, Definition(name="a", tags=("y",)), Definition(name="c", status="draft"))
    changed = await store.served(app, after=seen)
    assert changed.revision == seen + 2
    assert [(each.name, each.tags) for each in changed.agents] == [("a", ("y",))]
    assert changed.policies == ()
    assert changed.retired == (("agent", "b"),)
    assert [each.name for each in (await store.served(app)).agents] == ["a", "c"]


async def apps_do_not_see_each_other(store: Definitions) -> None:
    app, other = fresh(), fresh()
    await put(store, app, Definition(name="a"), PolicyDefinition(name="a", policy="default"))
    before = await _everything(store, app)
    await put(store, other, Definition(name="a", description="else"))
    assert await _everything(store, app) == before
    assert await store.revision(other) == 1
    agent, policy = await store.get(app, "agent", "a"), await store.get(app, "policy", "a")
    assert isinstance(agent, Definition)
    assert isinstance(policy, PolicyDefinition)


async def lists_are_paged(store: Definitions) -> None:
    app = fresh()
    names = ["Zoë", "a", "b", "é", "東"]
    await put(store, app, *(Definition(name=name) for name in reversed(names)))
    found, cursor = [], None
    while True:
        page = await store.list(app, "agent", after=cursor, limit=2)
        found += [each.name for each in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert found == sorted(names), "by code point"
    for number in range(2, 6):
        await put(store, app, Definition(name="a", description=str(number)))
    first = await store.history(app, "agent", "a", limit=3)
    rest = await store.history(app, "agent", "a", after=first.next, limit=3)
    assert [each.version for each in (*first.items, *rest.items)] == [5, 4, 3, 2, 1]
    assert rest.next is None
    for call in (store.list(app, "policy", after=first.next), store.changes(app, after="x")):
        try:
            await call
        except CursorInvalid:
            continue
        raise AssertionError("A cursor of another list was taken.")


async def each_change_is_audited(store: Definitions) -> None:
    """F1: with who, when, why, the fields, and before and after of what decides about access."""
    app = fresh()
    await put(store, app, Definition(name="a", description="1", roles=("staff",)), Definition(name="b"))
    change = Definition(name="a", description="2", roles=("staff", "boss"), parent="b", enabled=False)
    await put(store, app, change, author=BEN)
    newest, *older = (await store.changes(app)).items
    assert (newest.revision, newest.what, newest.name, newest.before, newest.after) == (2, "agent", "a", 1, 2)
    assert (newest.author, newest.created_at, newest.note) == ("ben", BEN.at, "Second.")
    assert set(newest.fields) == {"description", "roles", "parent", "enabled"}
    assert newest.values == {"roles": (["staff"], ["staff", "boss"]), "parent": (None, "b"), "enabled": (None, False)}
    assert [(each.name, each.before, each.revision) for each in older] == [("a", 0, 1), ("b", 0, 1)]
    first = await store.changes(app, limit=2)
    rest = await store.changes(app, after=first.next, limit=2)
    assert (*first.items, *rest.items) == (newest, *older)


async def what_was_served_at_an_earlier_revision(store: Definitions) -> None:
    """F3: another process can make the agents again that an invocation began with."""
    app = fresh()
    await put(store, app, Definition(name="a", description="1"))
    await put(store, app, Definition(name="a", description="draft", status="draft"), Definition(name="b"))
    await put(store, app, Definition(name="a", description="2"), Definition(name="b", status="retired"))
    await put(store, app, Definition(name="c"), PolicyDefinition(policy="default"))
    wanted: list[list[tuple[str, int]]] = [[], [("a", 1)], [("a", 1), ("b", 1)], [("a", 3)], [("a", 3), ("c", 1)]]
    for revision, agents in enumerate(wanted):
        found = await store.served(app, at=revision)
        assert [(each.name, each.version) for each in found.agents] == agents
        assert (found.revision, len(found.policies)) == (revision, int(revision == 4))
    assert (await store.served(app, at=99)).revision == 4


async def old_versions_are_pruned_unless_used(store: Definitions) -> None:
    app = fresh()
    for number in range(1, 7):
        await put(store, app, Definition(name="a", description=str(number), status="active" if number < 4 else "draft"))
    await put(store, app, Definition(name="b"))
    assert await store.prune(app, keep=2, revisions=(1,), dry_run=True) == 2
    assert await store.prune(app, keep=2, revisions=(1,)) == 2
    kept = [each.version for each in (await store.history(app, "agent", "a")).items]
    assert kept == [6, 5, 3, 1], "the newest two, the served one, and the one that revision 1 served"
    assert await store.get(app, "agent", "a", 2) is None
    assert len((await store.changes(app)).items) == 7
    assert [each.version for each in await put(store, app, Definition(name="a"))] == [7]
    assert await store.prune(app, keep=1) == 4
    assert [each.version for each in (await store.history(app, "agent", "a")).items] == [7]


async def many_definitions_in_one_put(store: Definitions) -> None:
    app = fresh()
    names = [f"agent-{number:04}" for number in range(1000)]
    await store.put(app, [Definition(name=name) for name in names], {}, ANN)
    expected: dict[DefinitionKey, int] = {("agent", name): 1 for name in names}
    await store.put(app, [Definition(name=name, tags=("x",)) for name in names], expected, BEN)
    served = await store.served(app)
    assert [each.name for each in served.agents] == names
    assert {each.version for each in served.agents} == {2}
    error = await _conflict(store, app, [Definition(name=name) for name in names], {**expected, ("agent", names[-1]): 2})
    assert error.current == 2
    assert await store.revision(app) == 2


async def names_that_cannot_be_kept_are_refused(store: Definitions) -> None:
    policy = PolicyDefinition(name="a\0", policy="default")
    for call in (store.get("app", "agent", "a\0b"), store.served("a\0"), store.put("app", [policy], {}, ANN)):
        try:
            await call
        except StoreError:
            continue
        raise AssertionError("NUL is kept by no database; an empty answer would be a lie.")


CASES: tuple[Case, ...] = (
    a_new_app_has_nothing,
    every_form_comes_back_as_it_was,
    fields_of_a_newer_release_stay,
    a_put_of_several_is_one_change,
    a_stale_put_changes_nothing,
    a_put_may_expect_the_revision_that_it_was_checked_with,
    two_versions_of_one_name_are_refused,
    drafts_are_kept_but_not_served,
    activating_retiring_and_rolling_back_are_new_versions,
    changes_since_a_revision,
    apps_do_not_see_each_other,
    lists_are_paged,
    each_change_is_audited,
    what_was_served_at_an_earlier_revision,
    old_versions_are_pruned_unless_used,
    many_definitions_in_one_put,
    names_that_cannot_be_kept_are_refused,
)


async def _write(store: Definitions, app: str, name: str, version: int) -> str | DefinitionConflict:
    new = [Definition(name=f"{name}-{version}"), Definition(name="shared", description=name)]
    try:
        await store.put(app, new, {("agent", "shared"): version}, ANN)
    except DefinitionConflict as error:
        return error
    return name


async def of_two_writers_one_wins(here: Definitions, there: Definitions) -> None:
    """F1: in many rounds, each version has one writer, and the loser's other definitions are not stored."""
    app = fresh()
    for version in range(12):
        ends = await asyncio.gather(_write(here, app, "here", version), _write(there, app, "there", version))
        won = [end for end in ends if isinstance(end, str)]
        lost = [(end.expected, end.current) for end in ends if isinstance(end, DefinitionConflict)]
        assert (len(won), lost) == (1, [(version, version + 1)])
        for store in (here, there):
            shared = await store.get_served(app, "agent", "shared")
            assert isinstance(shared, Definition)
            assert (shared.version, shared.description) == (version + 1, won[0])
            loser = "there" if won == ["here"] else "here"
            assert await store.get(app, "agent", f"{loser}-{version}") is None
    assert await there.revision(app) == 12


async def a_commit_is_seen_by_the_other(here: Definitions, there: Definitions) -> None:
    app = fresh()
    await put(here, app, Definition(name="a"))
    assert await there.revision(app) == 1
    await put(there, app, Definition(name="a", tags=("x",)))
    served = await here.served(app, after=1)
    assert [(each.name, each.version, each.tags) for each in served.agents] == [("a", 2, ("x",))]


SHARED_CASES: tuple[SharedCase, ...] = (of_two_writers_one_wins, a_commit_is_seen_by_the_other)
