"""The dispatchers against the public conformance suite: the local one, and one on a real Restate server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from restate_play import RestateServer, free_port, restate_server, skip_without_restate

from turnwise.dispatch.local import LocalDispatcher
from turnwise.ports.dispatcher import Dispatcher, WorkOff
from turnwise.testing import dispatcher_suite


@asynccontextmanager
async def serving_locally(work_off: WorkOff) -> AsyncIterator[Dispatcher]:
    dispatcher = LocalDispatcher(work_off)
    await dispatcher.serve()
    try:
        yield dispatcher
    finally:
        await dispatcher.close()


@pytest.mark.parametrize("case", dispatcher_suite.CASES, ids=lambda case: case.__name__)
async def test_the_local_one(case: dispatcher_suite.Case) -> None:
    await case(serving_locally)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestateServer]:
    skip_without_restate()
    with restate_server(tmp_path_factory.mktemp("restate")) as server:
        yield server


@pytest.mark.parametrize("case", dispatcher_suite.CASES, ids=lambda case: case.__name__)
async def test_one_on_restate(case: dispatcher_suite.Case, server: RestateServer, tmp_path: Path) -> None:
    from turnwise.dispatch.restate import RestateEngine, WorkerAddress

    @asynccontextmanager
    async def serving(work_off: WorkOff) -> AsyncIterator[Dispatcher]:
        worker = WorkerAddress(port=free_port(), keys=(server.public_key,))
        dispatcher = RestateEngine(server.address, app=dispatcher_suite.APP, worker=worker).dispatcher(work_off)
        task = asyncio.create_task(dispatcher.serve())
        try:
            await server.knows(f"http://127.0.0.1:{worker.port}", task)
            yield dispatcher
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await dispatcher.close()

    await case(serving)
