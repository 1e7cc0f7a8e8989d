"""A committed change of the definitions decides in every process, while messages are answered (behaviours F3, F4, F7)."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from cli_play import written
from following_process import Follower
from runner_play import soon

from turnwise import Result
from turnwise.assemble import App, load_app
from turnwise.facts.errors import StoreUnavailable
from turnwise.facts.ids import SystemIssuer
from turnwise.facts.tree import Pattern
from turnwise.matching.disk_cache import VARIABLE
from turnwise.ports.definitions import (
    AnyDefinition,
    Author,
    Definition,
    MadeByFactory,
    MadeOfTemplates,
    PolicyDefinition,
    ReplyTemplate,
)
from turnwise.testing.postgres import new_postgres_database

CONFIGURATION = """
app: test
root: desk
agents: ['definition_agents:desk', 'definition_agents:parcels']
store: {store!r}
policy: {{stages: [{{selector: patterns}}, {{selector: semantic, options: {{threshold: 0.6}}}}]}}
encoder: {{import: 'turnwise.testing.fake_encoder:BagOfWordsEncoder'}}
definitions: {{makers: {{asker: "definition_agents:asker"}}}}
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose sessions and definitions are in a database of its own."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "cache"))
    url = f"sqlite:///{tmp_path}/x.db" if request.param == "sqlite" else new_postgres_database()
    written(tmp_path, CONFIGURATION.format(store=url))
    return tmp_path


@asynccontextmanager
async def processes(folder: Path, count: int) -> AsyncIterator[list[App]]:
    """Apps with connections of their own, each of which follows the definitions as a process does."""
    apps = [load_app(folder) for _ in range(count)]
    for app in apps:
        await app.serve_definitions()
    following = [asyncio.create_task(app.follow_definitions()) for app in apps]
    try:
        yield apps
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)
        for app in apps:
            await app.runner.close()


async def put(app: App, *definitions: AnyDefinition) -> None:
    editor = app.editor
    assert editor is not None
    expected = {}
    for each in definitions:
        newest = await editor.store.get(editor.app, each.what, each.name)
        expected[each.what, each.name] = newest.version if newest else 0
    await editor.put(definitions, expected, Author("test", SystemIssuer().now()))


async def until(holds: Callable[[], object]) -> None:
    """Waits until that holds."""

    async def look() -> None:
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    await soon(look())


async def decides(apps: list[App], text: str, agent: str) -> None:
    """Waits until all of them choose that agent for the text."""
    for app in apps:
        while (await app.runner.select(text)).agent != agent:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


class Users:
    """Users of each process who send one message after the other."""

    def __init__(self, apps: list[App]) -> None:
        self.ends: list[str] = []
        self._stop = asyncio.Event()
        self._tasks = [asyncio.create_task(self._talk(app, f"user {number}")) for number, app in enumerate(apps)]

    async def _talk(self, app: App, user: str) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                return
            text = ("my parcel", "anything", "a refund please")[number % 3]
            result = await (await app.runner.start(text, user=user, session=f"s{number % 4}")).result()
            self.ends.append(result.end.reason if result.end else "waiting")
            await asyncio.sleep(0.005)

    async def stop(self) -> None:
        self._stop.set()
        await asyncio.gather(*self._tasks)


REFUNDS = Definition(
    name="refunds",
    patterns=(Pattern(regex="refund"),),
    made_by=MadeOfTemplates(kind="reply", templates=(ReplyTemplate(text=("Refunded.",)),)),
)


async def test_each_kind_of_change_decides_in_all_processes_and_no_message_fails(folder: Path) -> None:
    """F3, F4, F6"""
    async with processes(folder, 3) as apps:
        users = Users(apps)
        first, second, third = apps
        await put(first, Definition(name="parcels", patterns=(Pattern(regex="package"),)))
        await soon(decides(apps, "where is my package", "parcels"))
        await put(second, Definition(name="parcels", examples=("a letter for my aunt",)))
        await soon(decides(apps, "a letter for my aunt", "parcels"))
        await put(third, Definition(name="parcels", description="crates and barrels by ship"))
        await soon(decides(apps, "crates and barrels by ship", "parcels"))
        await put(first, Definition(name="parcels", enabled=False))
        await soon(decides(apps, "my parcel", "desk"))
        await put(second, REFUNDS)
        await soon(decides(apps, "a refund please", "refunds"))
        result = await (await third.runner.start("a refund please", user="ada", session="s")).result()
        assert result.text == "Refunded."
        assert result.selection is not None
        assert result.selection.revision == third.runner.sets.current.revision == 5
        await put(first, PolicyDefinition(policy={"stages": [{"selector": "default"}]}))
        await soon(decides(apps, "a refund please", "desk"))
        editor = second.editor
        assert editor is not None
        await put(second, PolicyDefinition(policy={"stages": [{"selector": "patterns"}]}))
        await soon(decides(apps, "a refund please", "refunds"))
        await editor.activate("policy", "main", 1, 2, Author("test", SystemIssuer().now()))
        await soon(decides(apps, "a refund please", "desk"))
        await editor.retire("policy", "main", 3, Author("test", SystemIssuer().now()))
        await soon(decides(apps, "a refund please", "refunds"))
        await editor.retire("agent", "refunds", 1, Author("test", SystemIssuer().now()))
        await soon(decides(apps, "a refund please", "desk"))
        await users.stop()
        assert set(users.ends) == {"completed"}
        assert all(app.runner.sets.problem is None for app in apps)
        assert all("refunds" not in app.runner.tree for app in apps)
        for app in apps:
            await app.runner.idle()
            assert app.runner.sets.kept <= 2


async def test_fifty_waiting_invocations_whose_agent_changes_is_rolled_back_and_retired(folder: Path) -> None:
    """F3, F6: the version that asked takes the reply, in any process; once it is retired, the reply is a message like any."""

    def named(word: str) -> Definition:
        made = MadeByFactory(use="asker", options={"word": word})
        return Definition(name="asker", patterns=(Pattern(regex="^ask"),), made_by=made)

    async with processes(folder, 2) as apps:
        asking, other = apps
        await put(asking, named("one"), PolicyDefinition(policy={"stages": ["resume", "patterns"]}))
        await soon(decides(apps, "ask me", "asker"))
        waiting = [f"s{number}" for number in range(50)]
        for session in waiting:
            assert (await said(asking, "ask me", session)).end is None
        editor, author = other.editor, Author("test", SystemIssuer().now())
        assert editor is not None
        await put(other, named("two"))
        await until(lambda: {app.runner.sets.current.revision for app in apps} == {2})
        assert await replies(apps, waiting[:16]) == ["one: 7"] * 16
        await editor.activate("agent", "asker", 1, 2, author)
        await until(lambda: {app.runner.sets.current.revision for app in apps} == {3})
        assert await replies(apps, waiting[16:32]) == ["one: 7"] * 16
        await editor.retire("agent", "asker", 3, author)
        await until(lambda: {app.runner.sets.current.revision for app in apps} == {4})
        assert await replies(apps, waiting[32:]) == ["desk"] * 18


async def said(app: App, text: str, session: str) -> Result:
    return await (await app.runner.start(text, user="ada", session=session)).result()


async def replies(apps: list[App], sessions: list[str]) -> list[str]:
    """The answers to a reply in each session, by one process after the other."""
    return [(await said(app, "7", session)).text for app, session in zip(itertools.cycle(apps), sessions, strict=False)]


TEXTS = ("where is my package", "a letter for my aunt", "crates and barrels by ship", "my parcel", "a refund please")
KINDS: tuple[tuple[AnyDefinition | int, str, str], ...] = (
    (Definition(name="parcels", patterns=(Pattern(regex="package"),)), TEXTS[0], "parcels"),
    (Definition(name="parcels", examples=(TEXTS[1],)), TEXTS[1], "parcels"),
    (Definition(name="parcels", description=TEXTS[2]), TEXTS[2], "parcels"),
    (Definition(name="parcels", enabled=False), TEXTS[3], "desk"),
    (REFUNDS, TEXTS[4], "refunds"),
    (PolicyDefinition(policy={"stages": [{"selector": "default"}]}), TEXTS[4], "desk"),
    (PolicyDefinition(policy={"stages": [{"selector": "patterns"}]}), TEXTS[4], "refunds"),
    (1, TEXTS[4], "desk"),
    (PolicyDefinition(policy={}, status="retired"), TEXTS[4], "refunds"),
    (REFUNDS.replace(status="retired"), TEXTS[4], "desk"),
)
"""Changes, with a text that another agent answers then. A number is the version to which the policy is rolled back."""


async def test_three_processes_follow_each_change_and_no_message_fails(folder: Path) -> None:
    """F3, F4, F6: real processes, which answer messages all the time."""
    writer = load_app(folder)
    await writer.serve_definitions()
    followers = await asyncio.gather(*(Follower.start(folder, TEXTS) for _ in range(3)))
    assert writer.editor is not None
    for change, text, agent in KINDS:
        if isinstance(change, int):
            await writer.editor.activate("policy", "main", change, 2, Author("test", SystemIssuer().now()))
        else:
            await put(writer, change)
        committed = time.time()
        ats = await soon(asyncio.gather(*(each.decides(text, agent) for each in followers)))
        print(f"{change!r:.60}: {max(ats) - committed:.2f} s after the commit")
    ends = await soon(asyncio.gather(*(each.stop() for each in followers)))
    assert ends == [{"completed"}] * 3
    await writer.runner.close()


async def test_what_does_not_fit_this_process_is_not_served(folder: Path) -> None:
    """F3: another process may know an agent that this one does not."""
    async with processes(folder, 1) as (app,):
        assert app.editor is not None
        store = app.editor.store
        await store.put("test", [Definition(name="stranger")], {}, Author("test", SystemIssuer().now()))
        await until(lambda: app.runner.sets.problem)
        assert "'stranger'" in str(app.runner.sets.problem)
        assert (await app.runner.select("my parcel")).agent == "parcels"
        await put(app, REFUNDS.replace(name="stranger"))
        await soon(decides([app], "a refund please", "stranger"))
        assert app.runner.sets.problem is None


async def test_without_the_database_the_last_known_definitions_serve(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """F7"""
    async with processes(folder, 1) as (app,):
        await put(app, REFUNDS)
        await soon(decides([app], "a refund please", "refunds"))
        await until(lambda: list((folder / "cache").glob("definitions-*.json")))
    alone = load_app(folder)
    assert alone.sets is not None

    class Away:
        async def revision(self, app: str) -> int:
            raise StoreUnavailable("The database cannot be reached.")

    alone.sets._store = Away()  # type: ignore[assignment]
    await alone.serve_definitions()
    assert (await alone.runner.select("a refund please")).agent == "refunds"
    assert "which it served last" in caplog.text
    await alone.runner.close()
