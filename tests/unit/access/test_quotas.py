"""How much credentials and users may have."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from turnwise.access.quotas import Quotas
from turnwise.facts.callers import Caller
from turnwise.facts.errors import ConfigError, TooMany
from turnwise.facts.gateway import CallerLimits
from turnwise.stores.sql import SqlSessionStore

ANN = Caller(id="key:1", user="ann")
ANNS_PHONE = Caller(id="token:ann", user="ann")
SHOP = Caller(id="key:2", acts_for_users=True)
FEW = CallerLimits(requests=3, bytes=100, runs=2)


@asynccontextmanager
async def made(*, shared: bool = False, limits: CallerLimits = FEW) -> AsyncIterator[Quotas]:
    store = SqlSessionStore("sqlite://")
    try:
        yield Quotas("shop", limits.replace(shared=shared), store.counters)
    finally:
        await store.close()


@pytest.mark.parametrize("shared", [False, True])
async def test_requests_in_a_minute(shared: bool) -> None:
    async with made(shared=shared) as quotas:
        for _ in range(3):
            await quotas.request(ANN, "ann")
        with pytest.raises(TooMany, match=r"This user may have 3 requests in a minute\.") as refused:
            await quotas.request(ANN, "ann")
        assert 0 < refused.value.retry_after <= 60
        await quotas.request(SHOP, "bob")


@pytest.mark.parametrize("shared", [False, True])
async def test_a_users_credentials_count_together(shared: bool) -> None:
    async with made(shared=shared) as quotas:
        await quotas.request(ANN, "ann")
        await quotas.request(ANNS_PHONE, "ann")
        await quotas.request(SHOP, "ann")
        for caller in (ANN, ANNS_PHONE, SHOP):
            with pytest.raises(TooMany, match="user"):
                await quotas.request(caller, "ann")


@pytest.mark.parametrize("shared", [False, True])
async def test_a_credentials_users_count_together(shared: bool) -> None:
    async with made(shared=shared) as quotas:
        for user in ("ann", "bob", None):
            await quotas.request(SHOP, user)
        with pytest.raises(TooMany, match="credential"):
            await quotas.request(SHOP, "eve")
        with pytest.raises(TooMany, match="credential"):
            await quotas.request(SHOP, None)
        await quotas.request(ANN, "ann")


async def test_a_user_who_has_too_much_takes_nothing_from_the_others() -> None:
    async with made(limits=CallerLimits(requests=4)) as quotas:
        for _ in range(4):
            await quotas.request(ANN, "ann")
        for _ in range(50):
            with pytest.raises(TooMany):
                await quotas.request(SHOP, "ann")
        for _ in range(4):
            await quotas.request(SHOP, "bob")


@pytest.mark.parametrize("shared", [False, True])
async def test_what_a_credential_is_refused_takes_nothing_from_its_users(shared: bool) -> None:
    async with made(shared=shared) as quotas:
        for _ in range(3):
            await quotas.request(SHOP, "bob")
        for _ in range(20):
            with pytest.raises(TooMany, match="This credential"):
                await quotas.request(SHOP, "ann")
        await quotas.request(ANN, "ann")


async def test_what_is_too_much_for_a_credential_takes_nothing_from_its_users() -> None:
    async with made() as quotas:
        await quotas.received(SHOP, "bob", 60)
        with pytest.raises(TooMany, match="This credential"):
            await quotas.received(SHOP, "ann", 60)
        await quotas.received(ANN, "ann", 100)


@pytest.mark.parametrize("shared", [False, True])
async def test_bytes_in_a_minute(shared: bool) -> None:
    async with made(shared=shared) as quotas:
        await quotas.received(ANN, "ann", 60)
        with pytest.raises(TooMany, match="100 bytes in a minute"):
            await quotas.received(ANN, "ann", 41)
        await quotas.received(ANN, "ann", 40)
        await quotas.received(ANN, "ann", 0)
        await quotas.request(SHOP, "bob")


@pytest.mark.parametrize("shared", [False, True])
async def test_sent_bytes_are_never_refused_but_the_next_request_is(shared: bool) -> None:
    async with made(shared=shared) as quotas:
        await quotas.sent(ANN, "ann", 99)
        await quotas.request(ANN, "ann")
        await quotas.sent(ANN, "ann", 1_000)
        with pytest.raises(TooMany, match="100 bytes in a minute"):
            await quotas.request(ANN, "ann")
        await quotas.request(SHOP, "bob")


async def test_processes_count_sent_bytes_together() -> None:
    store = SqlSessionStore("sqlite://")
    one, other = (Quotas("shop", FEW.replace(shared=True), store.counters) for _ in range(2))
    await one.sent(ANN, "ann", 100)
    await other.sent(ANN, "ann", 1)
    with pytest.raises(TooMany, match="100 bytes in a minute"):
        await other.request(ANN, "ann")
    await store.close()


@pytest.mark.parametrize("shared", [False, True])
async def test_work_counts_as_requests_and_a_large_operation_as_half_the_limit(shared: bool) -> None:
    async with made(shared=shared, limits=FEW.replace(requests=10)) as quotas:
        await quotas.work(ANN, "ann", 4)
        await quotas.work(ANN, "ann", 1_000)
        await quotas.request(ANN, "ann")
        with pytest.raises(TooMany, match="This user may have 10 requests in a minute"):
            await quotas.work(ANN, "ann", 1)
        await quotas.work(SHOP, "bob", 5)


async def test_open_requests() -> None:
    async with made(limits=FEW.replace(connections=2)) as quotas:
        async with quotas.connection(ANN, "ann"), quotas.connection(ANNS_PHONE, "ann"):
            with pytest.raises(TooMany, match="This user may have 2 requests and streams open at once"):
                async with quotas.connection(ANN, "ann"):
                    raise AssertionError("There was no place.")
            async with quotas.connection(SHOP, "bob"), quotas.connection(SHOP, "eve"):
                with pytest.raises(TooMany, match="This credential"):
                    async with quotas.connection(SHOP, "fay"):
                        raise AssertionError("There was no place.")
        async with quotas.connection(ANN, "ann"):
            pass


@pytest.mark.parametrize("shared", [False, True])
async def test_answers_at_once(shared: bool) -> None:
    async with made(shared=shared) as quotas:
        async with quotas.runs(SHOP, "ann"), quotas.runs(SHOP, "bob"):
            with pytest.raises(TooMany, match="This credential may have 2 answers at once") as refused:
                async with quotas.runs(SHOP, "eve"):
                    raise AssertionError("There was no place.")
            assert refused.value.retry_after > 0
            async with quotas.runs(ANN, "ann"):
                with pytest.raises(TooMany, match="This user"):
                    async with quotas.runs(ANNS_PHONE, "ann"):
                        raise AssertionError("There was no place.")
            async with quotas.runs(ANNS_PHONE, "ann"):
                pass
        async with quotas.runs(SHOP, "ann"), quotas.runs(SHOP, "ann"):
            pass


@pytest.mark.parametrize("shared", [False, True])
async def test_a_place_is_given_back_when_the_answer_is_cancelled(shared: bool) -> None:
    async with made(shared=shared) as quotas:
        inside = asyncio.Semaphore(0)

        async def answer() -> None:
            async with quotas.runs(ANN, "ann"):
                inside.release()
                await asyncio.Event().wait()

        for _ in range(2):
            answers = [asyncio.create_task(answer()) for _ in range(2)]
            for _ in answers:
                await inside.acquire()
            with pytest.raises(TooMany):
                await answer()
            for task in answers:
                task.cancel()
            await asyncio.gather(*answers, return_exceptions=True)


async def test_what_is_shared_is_counted_in_the_store() -> None:
    store = SqlSessionStore("sqlite://")
    try:
        limits = CallerLimits(requests=3, shared=True)
        here, there, other = (Quotas(app, limits, store.counters) for app in ("shop", "shop", "bank"))
        for quotas in (here, there, here):
            await quotas.request(ANN, "ann")
        for quotas in (here, there):
            with pytest.raises(TooMany):
                await quotas.request(ANN, "ann")
        await other.request(ANN, "ann")
    finally:
        await store.close()


async def test_what_is_not_shared_is_counted_by_each_for_itself() -> None:
    async with made() as quotas, made() as another:
        for each in (quotas, another):
            for _ in range(3):
                await each.request(ANN, "ann")


def test_without_counters_nothing_is_shared() -> None:
    Quotas("shop", FEW)
    with pytest.raises(ConfigError, match="keeps no counters"):
        Quotas("shop", CallerLimits(shared=True))
