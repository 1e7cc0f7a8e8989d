"""Background jobs: stored with the event that requests them, and claimed by one holder at a time."""

import asyncio
from typing import Any

from turnwise.facts.events import Event, JobRequest
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import BackgroundJob, Lease, SessionStore
from turnwise.testing.session_store_cases.making import (
    LEASE,
    OTHER_LEASE,
    Case,
    asked,
    at_once,
    ended,
    fresh_id,
    fresh_key,
    message,
    opened,
    rewinds,
    told,
    won,
)

ANY = 100


def worker() -> Lease:
    """A lease whose holder is unique to the case, because `held` returns a holder's jobs of all apps."""
    return Lease(fresh_id("worker"), 60.0)


def asks(until: int, *, agent: str = "help", kind: str = "summary", **actions: Any) -> Event:
    """The end of an invocation whose agent requests a job."""
    return ended(agent, "hi", jobs=(JobRequest(kind=kind, until=until, scopes=("a",)),), **actions)


async def with_job(store: SessionStore, key: SessionKey, until: int = 2) -> Event:
    """Writes a session of two invocations. Returns its last event, which requests a job."""
    session = await told(store, key, "i-0")
    event = asks(until)
    await store.append(session, [asked(), event])
    return event


async def claimed(store: SessionStore, key: SessionKey, lease: Lease | None = None, limit: int = ANY) -> list[BackgroundJob]:
    return list(await store.jobs.claim(key.app, lease or worker(), limit=limit))


async def a_job_is_stored_with_its_event_and_claimed_once(store: SessionStore) -> None:
    """No other holder gets a claimed job before it is finished."""
    key = fresh_key()
    event = await with_job(store, key)
    workers = [worker() for _ in range(5)]
    results = await at_once(store.jobs.claim(key.app, each, limit=ANY) for each in workers)
    (job,) = [job for jobs in won(results) for job in jobs]
    assert job == BackgroundJob(key, "help", event.id, event.actions.jobs[0], 1)
    assert await claimed(store, fresh_key()) == []
    mine = next(each for each, jobs in zip(workers, won(results), strict=True) if jobs)
    await store.jobs.finish(job, "nobody")
    assert list(await store.jobs.held(mine.holder)) == [job]
    await store.jobs.finish(job, mine.holder)
    assert list(await store.jobs.held(mine.holder)) == []
    assert await claimed(store, key) == []


async def every_way_to_write_stores_jobs(store: SessionStore) -> None:
    """So do `begin` and `take`. An event that was stored before does not request its job again."""
    key = fresh_key()
    mine = worker()
    begun = await store.begin(await store.create(key), LEASE, message(), [asked(), asks(1)], queue_limit=None)
    await store.append(begun, [], release=True)
    (job,) = await claimed(store, key, mine)
    await store.jobs.finish(job, mine.holder)
    event = asks(2)
    for _ in range(2):
        await store.take(await opened(store, key), OTHER_LEASE, [event], release=True)
    (job,) = await claimed(store, key, mine)
    await store.jobs.finish(job, mine.holder)
    await store.append(await opened(store, key), [event])
    assert await claimed(store, key) == []


async def an_agent_has_one_open_job_of_a_kind(store: SessionStore) -> None:
    """Applies to one session. A second job is omitted, even while the first is running."""
    key = fresh_key()
    first, mine = await with_job(store, key), worker()
    await store.append(await opened(store, key), [asks(3)])
    (job,) = await claimed(store, key, mine)
    assert (job.event_id, job.request.until) == (first.id, 2)
    others = [asks(4), asks(4, agent="sales"), asks(4, kind="facts")]
    await store.append(await opened(store, key), others)
    assert [(each.agent, each.request.kind) for each in await claimed(store, key)] == [("sales", "summary"), ("help", "facts")]
    await store.jobs.finish(job, mine.holder)
    await store.append(await opened(store, key), [asks(5)])
    (job,) = await claimed(store, key)
    assert job.request.until == 5


async def a_dead_holders_claim_can_be_taken(store: SessionStore) -> None:
    """Attempts are counted. A holder that lost its claim can neither finish the job nor put it back."""
    key = fresh_key()
    await with_job(store, key)
    dead, other = worker(), worker()
    (job,) = await claimed(store, key, dead)
    assert await claimed(store, key, other) == []
    await store.leases.leave(dead.holder)
    (again,) = await claimed(store, key, other)
    assert again == job._replace(attempt=2)
    await store.jobs.finish(job, dead.holder)
    await store.jobs.put_back(job, dead.holder)
    assert list(await store.jobs.held(dead.holder)) == []
    assert list(await store.jobs.held(other.holder)) == [again]
    assert await claimed(store, key) == []


async def a_job_that_is_put_back_rests(store: SessionStore) -> None:
    """It rests for its pause. An attempt that does not count is not counted."""
    key = fresh_key()
    await with_job(store, key)
    mine = worker()
    (job,) = await claimed(store, key, mine)
    await store.jobs.put_back(job, mine.holder, counts=False)
    (job,) = await claimed(store, key, mine)
    assert job.attempt == 1
    await store.jobs.put_back(job, mine.holder, pause=0.05)
    assert list(await store.jobs.held(mine.holder)) == []
    await asyncio.sleep(0.15)
    (job,) = await claimed(store, key, mine)
    assert job.attempt == 2
    await store.jobs.put_back(job, mine.holder, pause=60.0)
    assert await claimed(store, key) == []


async def the_oldest_come_first(store: SessionStore) -> None:
    key = fresh_key()
    for number in range(4):
        await with_job(store, key._replace(id=f"s-{number}"))
    names = [[job.key.id for job in await claimed(store, key, limit=3)] for _ in range(2)]
    assert names == [["s-0", "s-1", "s-2"], ["s-3"]]


async def a_rewind_drops_the_jobs_on_what_it_hides(store: SessionStore) -> None:
    """This includes a running job. A job for visible events is kept."""
    key, other, mine = fresh_key(), fresh_key(), worker()
    await with_job(store, key)
    (job,) = await claimed(store, key, mine)
    await store.append(await opened(store, key), [rewinds(3)])
    assert list(await store.jobs.held(mine.holder)) == [job]
    await store.append(await opened(store, key), [rewinds(2)])
    assert list(await store.jobs.held(mine.holder)) == []
    session = await told(store, other, "i-0")
    await store.append(session, [asked(), asks(2), rewinds(3)])
    assert await claimed(store, other) == []


async def a_fork_has_no_jobs(store: SessionStore) -> None:
    key = fresh_key()
    await with_job(store, key)
    await store.fork(key, "copy")
    assert [job.key for job in await claimed(store, key)] == [key]


async def jobs_are_deleted_with_their_session(store: SessionStore) -> None:
    """Also with their user. A new session of the same name starts without jobs."""
    key, mine = fresh_key(), worker()
    await with_job(store, key)
    (job,) = await claimed(store, key, mine)
    await store.delete(key)
    assert list(await store.jobs.held(mine.holder)) == []
    await store.jobs.finish(job, mine.holder)
    await with_job(store, key)
    await with_job(store, key._replace(id="session-2"))
    await store.delete_user(key.app, key.user)
    assert await claimed(store, key) == []


CASES: tuple[Case, ...] = (
    a_job_is_stored_with_its_event_and_claimed_once,
    every_way_to_write_stores_jobs,
    an_agent_has_one_open_job_of_a_kind,
    a_dead_holders_claim_can_be_taken,
    a_job_that_is_put_back_rests,
    the_oldest_come_first,
    a_rewind_drops_the_jobs_on_what_it_hides,
    a_fork_has_no_jobs,
    jobs_are_deleted_with_their_session,
)
