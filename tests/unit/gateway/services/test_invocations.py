"""What a user has going, listed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from runner_play import ask, runners
from services_play import binding
from sqlalchemy import text
from store_play import on

from turnwise import Runner, SqlSessionStore, agent
from turnwise.facts.callers import Caller
from turnwise.facts.errors import CursorInvalid, Forbidden, RequestInvalid
from turnwise.gateway.services.invocations import TaskPage, Tasks

ADA, BOB = Caller(id="a", user="ada"), Caller(id="b", user="bob")
OPERATOR, SERVICE = Caller(id="o", role="operator"), Caller(id="s", acts_for_users=True)
MakeRunner = Callable[..., Runner]


@agent
async def clerk(message: str, context: Any) -> str:
    """Asks when it is asked to; else answers, or fails."""
    if message == "ask":
        return f"It is {(await context.ask('Which?')).text}"
    if message == "fail":
        raise ValueError("no")
    return "done"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/x.db"


@pytest.fixture
def runner(url: str) -> Iterator[Runner]:
    with runners(store=lambda: SqlSessionStore(url)) as make:
        yield make(clerk)


def tasks(runner: Runner) -> Callable[..., Tasks]:
    bind = binding(runner)
    return lambda caller, named=None: bind(caller, named).tasks


def brief(page: TaskPage) -> list[tuple[str, str, str]]:
    return [(task.session, task.message_id, task.state) for task in page.items]


async def test_what_changed_last_comes_first(runner: Runner) -> None:
    await ask(runner, "ask", message_id="m1")
    await ask(runner, "hello", "t", message_id="m2")
    await ask(runner, "fail", "t", message_id="m3")
    page = await tasks(runner)(ADA).page()
    assert brief(page) == [("t", "m3", "failed"), ("t", "m2", "completed"), ("s", "m1", "waiting")]
    assert (page.next, page.total) == (None, 3)
    await ask(runner, "this one", message_id="m4")
    page = await tasks(runner)(ADA).page(session="s")
    assert brief(page) == [("s", "m1", "completed")], "the reply goes on with the first message's"
    assert page.items[0].invocation_id


async def test_they_are_found_by_state_and_time_and_paged(runner: Runner) -> None:
    for number, message in enumerate(("hello", "fail", "hello")):
        await ask(runner, message, f"s{number}", message_id=f"m{number}")
    door = tasks(runner)
    page = await door(ADA).page(states=["completed"], limit=1)
    assert (brief(page), page.total) == ([("s2", "m2", "completed")], 2)
    rest = await door(ADA).page(states=["completed"], limit=1, after=page.next)
    assert (brief(rest), rest.next) == ([("s0", "m0", "completed")], None)
    assert [task.message_id for task in (await door(ADA).page(since=page.items[0].changed_at)).items] == ["m2"]
    with pytest.raises(CursorInvalid):
        await door(ADA).page(after="x")


async def test_whose_they_are_is_decided_as_for_sessions(runner: Runner) -> None:
    await ask(runner, "hello", message_id="m1")
    door = tasks(runner)
    assert brief(await door(BOB).page()) == []
    for caller in (OPERATOR, SERVICE):
        assert len((await door(caller, "ada").page()).items) == 1
        with pytest.raises(RequestInvalid):
            await door(caller).page()
    for user, session in (("ada", None), ("ada", "s"), ("nobody", None)):
        with pytest.raises(Forbidden):
            await door(BOB, user).page(session=session)
    with pytest.raises(Forbidden):
        await door(ADA.replace(scopes=("messages:write",))).page()


async def test_what_was_taken_back_is_none_any_more(runner: Runner) -> None:
    await ask(runner, "hello", message_id="m1")
    await ask(runner, "ask", message_id="m2")
    last = (await tasks(runner)(ADA).page()).items[0]
    await runner.sessions.rewind(runner.key("ada", "s"), last.invocation_id)
    assert brief(await tasks(runner)(ADA).page()) == [("s", "m1", "completed")]


async def test_what_an_older_version_wrote_is_looked_up(runner: Runner, url: str) -> None:
    for number, message in enumerate(("hello", "ask", "fail")):
        await ask(runner, message, f"s{number}", message_id=f"m{number}")
    on(url, lambda connection: connection.execute(text("UPDATE turnwise_decisions SET state = NULL")))
    page = await tasks(runner)(ADA).page()
    assert {task.message_id: task.state for task in page.items} == {
        "m0": "completed",
        "m1": "waiting",
        "m2": "failed",
    }
    page = await tasks(runner)(ADA).page(states=["failed"])
    assert brief(page) == [("s2", "m2", "failed")]
