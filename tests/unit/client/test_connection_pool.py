"""HTTP clients, one for each event loop."""

import asyncio

import httpx

from turnwise.client.connection import Connections


async def test_one_for_each_loop_until_it_is_closed() -> None:
    connections = Connections(httpx.AsyncClient)
    here = await connections.current()
    assert await connections.current() is here
    elsewhere = await asyncio.to_thread(asyncio.run, connections.current())
    assert elsewhere is not here
    assert elsewhere.is_closed  # with its loop
    assert not here.is_closed
    await connections.close()
    await connections.close()
    assert here.is_closed
    another = await connections.current()
    assert another is not here
    await connections.close()
