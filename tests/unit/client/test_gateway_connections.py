"""HTTP clients, one for each event loop."""

import asyncio

import httpx

from turnwise.client.gateway import Connections


async def test_one_for_each_loop_until_it_is_closed() -> None:
    connections = Connections(httpx.AsyncClient)
    here = await connections.here()
    assert await connections.here() is here
    elsewhere = await asyncio.to_thread(asyncio.run, connections.here())
    assert elsewhere is not here
    assert elsewhere.is_closed  # with its loop
    assert not here.is_closed
    await connections.close()
    await connections.close()
    assert here.is_closed
    another = await connections.here()
    assert another is not here
    await connections.close()
