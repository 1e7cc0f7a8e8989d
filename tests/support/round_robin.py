"""A proxy before several processes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count


@asynccontextmanager
async def round_robin(ports: Sequence[int]) -> AsyncIterator[str]:
    """A proxy that gives each connection to the next process on this machine that accepts it. Yields its address."""
    turn = count()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in ports:
            try:
                up, down = await asyncio.open_connection("127.0.0.1", ports[next(turn) % len(ports)])
            except OSError:
                continue
            await asyncio.gather(pump(reader, down), pump(up, writer))
            return
        writer.close()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
