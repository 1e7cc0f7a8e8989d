"""How much one session and one user may store: each limit at, below and above, and other users and processes beside."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from runner_play import runners

from turnwise import Limits, RunConfig, Runner, SqlSessionStore, agent
from turnwise.errors import ForksUsed, SessionFull, SessionsUsed, StateFull, StorageUsed
from turnwise.facts.content import BlobPart, Content, TextPart, text_content
from turnwise.facts.sessions import SessionKey
from turnwise.runner import PastExchange
from turnwise.runner.allowances import USAGE_SECONDS, Allowances
from turnwise.stores import ArtifactInfo, InMemoryArtifactStore
from turnwise.testing.postgres import new_postgres_database

MakeRunner = Callable[..., Runner]


@pytest.fixture(params=["sqlite", "postgresql"])
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeRunner]:
    """Makes a runner with a connection of its own to the one database, as another process has."""
    url = f"sqlite:///{tmp_path}/s.db" if request.param == "sqlite" else new_postgres_database()
    with runners(store=lambda: SqlSessionStore(url)) as make:
        yield make


@agent
async def clerk(context: object) -> str:
    """Answers."""
    return "Yes."


@agent
async def keeper(context):  # type: ignore[no-untyped-def]
    """Writes what is sent to the state of the user."""
    context.state["user:note"] = context.message.text
    return "Kept."


def few(**limits: int) -> RunConfig:
    return RunConfig(limits=Limits(**limits))


async def ask(runner: Runner, session: str, user: str = "ann", text: str = "hi") -> str:
    result = await (await runner.start(text, user=user, session=session)).result()
    return result.end.reason if result.end else "waits"


async def test_sessions_of_a_user_are_counted_in_all_processes(process: MakeRunner) -> None:
    one, other = process(clerk, config=few(sessions=2)), process(clerk, config=few(sessions=2))
    await ask(one, "a")
    await other.sessions.create(other.key("ann", "b"))
    for refused in (ask(one, "c"), other.sessions.create(other.key("ann", "d"))):
        with pytest.raises(SessionsUsed, match=r"2 sessions, 2 are allowed.*limits.sessions"):
            await refused
    with pytest.raises(SessionsUsed):
        await one.sessions.fork(one.key("ann", "a"), "e")
    assert await ask(one, "b") == "completed"
    assert await ask(one, "a", user="bob") == "completed"
    await other.sessions.delete(other.key("ann", "b"))
    assert await ask(one, "c") == "completed"


async def test_forks_of_a_user_are_counted_without_its_other_sessions(make_runner: MakeRunner) -> None:
    runner = make_runner(clerk, config=few(forks=1))
    for user in ("ann", "bob"):
        await ask(runner, "a", user)
        await ask(runner, "b", user)
        await runner.sessions.fork(runner.key(user, "a"), "f")
    with pytest.raises(ForksUsed, match="1 forks, 1 are allowed"):
        await runner.sessions.fork(runner.key("ann", "a"), "g")
    await runner.sessions.delete(runner.key("ann", "f"))
    await runner.sessions.fork(runner.key("ann", "a"), "g")


@pytest.mark.parametrize("limit", ["session_events", "session_bytes"])
async def test_a_full_log_takes_no_more_but_is_read_forked_and_deleted(make_runner: MakeRunner, limit: str) -> None:
    runner = make_runner(clerk)
    await ask(runner, "a")
    key = runner.key("ann", "a")
    full = await runner.sessions.get(key)
    size = full.last_sequence if limit == "session_events" else full.bytes
    above, at = few(**{limit: size + 1}), few(**{limit: size})
    with pytest.raises(SessionFull, match=f"allowed.*limits.{limit}"):
        await runner.start("hi", user="ann", session="a", config=at)
    await (await runner.start("hi", user="ann", session="a", config=above)).result()
    bounded = make_runner(clerk, store=runner.store, config=at)
    events = await bounded.sessions.events(key)
    for refused in (
        bounded.sessions.rewind(key, events[0].invocation_id),
        bounded.sessions.write_state(key, {"a": 1}),
        bounded.sessions.bring(key, [PastExchange(text_content("hi", "user"))]),
    ):
        with pytest.raises(SessionFull):
            await refused
    await bounded.sessions.fork(key, "f")
    await bounded.sessions.delete(key)
    assert await ask(bounded, "new") == "completed"


async def test_a_refused_import_leaves_no_session(make_runner: MakeRunner) -> None:
    runner = make_runner(clerk, config=few(session_events=3))
    past = [PastExchange(text_content("hi", "user"), (text_content("Yes."),))] * 2
    with pytest.raises(SessionFull):
        await runner.sessions.bring(runner.key("ann", "a"), past)
    assert await runner.store.open(runner.key("ann", "a")) is None
    await runner.sessions.bring(runner.key("ann", "a"), past[:1])


async def test_the_state_of_a_session_and_of_a_user_is_bounded_in_all(make_runner: MakeRunner) -> None:
    config = few(session_state_bytes=20, user_state_bytes=20)
    runner = make_runner(clerk, config=config)
    key = runner.key("ann", "a")
    await runner.sessions.create(key, state={"a": "x" * 12})  # {"a":"xxxxxxxxxxxx"} has 20 bytes
    with pytest.raises(StateFull, match=r"session's state would have 26 bytes, 20 are allowed.*session_state_bytes"):
        await runner.sessions.write_state(key, {"b": 1})
    await runner.sessions.write_state(key, {"user:a": "x" * 12, "a": None})
    with pytest.raises(StateFull, match=r"user's state would have 21 bytes.*user_state_bytes"):
        await runner.sessions.create(runner.key("ann", "b"), state={"user:a": "x" * 13})
    await runner.sessions.write_state(runner.key("ann", "a"), {"user:a": None})
    await runner.sessions.create(runner.key("bob", "b"), state={"user:a": "x" * 12})


async def test_an_agent_that_writes_too_much_state_ends_at_the_limit(make_runner: MakeRunner) -> None:
    runner = make_runner(keeper, config=few(user_state_bytes=23))
    assert await ask(runner, "a", text="x" * 12) == "completed"
    assert await ask(runner, "a", text="x" * 13) == "limit:user_state_bytes"
    assert (await runner.sessions.get(runner.key("ann", "a"))).user_state == {"note": "x" * 12}


async def test_logs_and_artifacts_of_a_user_count_together(make_runner: MakeRunner) -> None:
    artifacts = InMemoryArtifactStore()
    runner = make_runner(clerk, artifacts=artifacts)
    await ask(runner, "a")
    key = runner.key("ann", "a")
    size = (await runner.sessions.get(key)).bytes
    bounded = make_runner(clerk, store=runner.store, artifacts=artifacts, config=few(user_bytes=size + 10))
    assert bounded.limited_artifacts is not None
    with pytest.raises(StorageUsed, match=r"limits\.user_bytes"):
        await bounded.limited_artifacts.save(key, "f", bytes(11))
    await bounded.limited_artifacts.save(key, "f", bytes(10))
    for refused in (ask(bounded, "a"), ask(bounded, "b"), bounded.limited_artifacts.save(key, "g", b"x")):
        with pytest.raises(StorageUsed, match=r"limits\.user_bytes"):
            await refused
    assert await ask(bounded, "a", user="bob") == "completed"
    await artifacts.delete(key, "f")
    await bounded.limited_artifacts.save(key, "g", bytes(10))


async def test_what_another_process_stored_counts_after_a_while(process: MakeRunner) -> None:
    now = [0.0]
    one = process(clerk)
    await ask(one, "a")
    key = one.key("ann", "a")
    allowances = Allowances(one.store, None, lambda: now[0])
    limits = Limits(user_bytes=(await one.sessions.get(key)).bytes + 1)
    await allowances.check_storage(key, limits)
    await ask(process(clerk), "a")
    await allowances.check_storage(key, limits)
    now[0] += USAGE_SECONDS
    with pytest.raises(StorageUsed):
        await allowances.check_storage(key, limits)


async def test_limits_survive_a_restart(process: MakeRunner) -> None:
    """J3."""
    first = process(clerk)
    await ask(first, "a")
    await first.sessions.fork(first.key("ann", "a"), "f")
    size = (await first.sessions.get(first.key("ann", "a"))).bytes
    await first.close()
    for limit, error in (
        (few(sessions=2), SessionsUsed),
        (few(forks=1), ForksUsed),
        (few(user_bytes=size), StorageUsed),
    ):
        again = process(clerk, config=limit)
        with pytest.raises(error):
            await again.sessions.fork(again.key("ann", "a"), "g")
        assert await again.store.open(again.key("ann", "g")) is None
        assert await ask(again, "a", user=f"bob {error.code}") == "completed"


async def test_a_fork_that_the_storage_has_no_room_for_leaves_nothing(make_runner: MakeRunner) -> None:
    """J3: all versions of an artifact count, since a fork copies them all."""
    artifacts = InMemoryArtifactStore()
    runner = make_runner(clerk, artifacts=artifacts)
    await ask(runner, "a")
    key, fork = runner.key("ann", "a"), runner.key("ann", "f")
    size = (await runner.sessions.get(key)).bytes
    for _ in range(3):
        await artifacts.save(key, "file", bytes(10))
    await artifacts.save(key, "user:mine", bytes(10))
    config = few(user_bytes=size + 69)
    bounded = make_runner(clerk, store=runner.store, artifacts=artifacts, config=config)
    with pytest.raises(StorageUsed):
        await bounded.sessions.fork(key, fork.id)
    assert await runner.store.open(fork) is None
    assert [info.name for info in await artifacts.list(fork)] == ["user:mine"]
    roomy = make_runner(clerk, store=runner.store, artifacts=artifacts, config=few(user_bytes=size + 70))
    await roomy.sessions.fork(key, fork.id)
    assert len(await artifacts.versions(fork, "file")) == 3


class Crowded(InMemoryArtifactStore):
    """Runs `meanwhile` once, at the first save after it is set."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def save(
        self, key: SessionKey, name: str, data: bytes, *, mime_type: str = "application/octet-stream"
    ) -> ArtifactInfo:
        then, self.meanwhile = self.meanwhile, None
        if then is not None:
            await then()
        return await super().save(key, name, data, mime_type=mime_type)


async def test_a_fork_that_runs_out_of_room_in_the_middle_is_deleted(make_runner: MakeRunner) -> None:
    """J3: another request of the user takes the room while the fork copies artifacts."""
    artifacts = Crowded()
    runner = make_runner(clerk, artifacts=artifacts)
    await ask(runner, "a")
    key, fork = runner.key("ann", "a"), runner.key("ann", "f")
    size = (await runner.sessions.get(key)).bytes
    for name in ("one", "two"):
        await artifacts.save(key, name, bytes(10))
    limited = make_runner(clerk, store=runner.store, artifacts=artifacts, config=few(user_bytes=size + 40))
    files = limited.limited_artifacts
    assert files is not None
    artifacts.meanwhile = lambda: files.save(key, "user:other", bytes(15))
    with pytest.raises(StorageUsed):
        await limited.sessions.fork(key, fork.id)
    assert await runner.store.open(fork) is None
    assert [info.name for info in await artifacts.list(fork)] == ["user:other"]
    await limited.sessions.delete(key)
    await limited.sessions.create(key)


async def test_a_message_whose_files_have_no_room_saves_none_of_them(make_runner: MakeRunner) -> None:
    """J3."""
    artifacts = InMemoryArtifactStore()
    config = few(user_bytes=1_000).replace(save_input_blobs_as_artifacts=True)
    runner = make_runner(clerk, artifacts=artifacts, config=config)
    files = Content(role="user", parts=(BlobPart(data=bytes(900), name="one"), BlobPart(data=bytes(900), name="two")))
    for message in (files, Content(role="user", parts=(TextPart(text="see"), *files.parts))):
        with pytest.raises(StorageUsed):
            await (await runner.start(message, user="ann", session="a")).result()
    assert await artifacts.used_bytes("app", "ann") == 0
    assert await runner.store.open(runner.key("ann", "a")) is None
    await (await runner.start(files.with_parts(files.parts[:1]), user="ann", session="a")).result()
    assert await artifacts.used_bytes("app", "ann") == 900


async def test_a_refused_import_saves_no_files(make_runner: MakeRunner) -> None:
    """J3."""
    artifacts = InMemoryArtifactStore()
    config = few(user_bytes=2_000).replace(save_input_blobs_as_artifacts=True)
    runner = make_runner(clerk, artifacts=artifacts, config=config)
    blob = Content(role="user", parts=(TextPart(text="see"), BlobPart(data=bytes(3_000), name="file")))
    with pytest.raises(StorageUsed):
        await runner.sessions.bring(runner.key("ann", "a"), [PastExchange(blob)])
    assert await artifacts.used_bytes("app", "ann") == 0
    assert await runner.store.open(runner.key("ann", "a")) is None
