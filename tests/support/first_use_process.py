"""A process that opens a database as soon as its standard input ends, and runs one turn."""

import asyncio
import sys

from turnwise import Runner, SqlSessionStore, agent


@agent
async def echo(message: str) -> str:
    return f"echo: {message}"


async def main(url: str, session: str) -> None:
    runner = Runner(echo, app="app", store=SqlSessionStore(url))
    result = await (await runner.start("hello", user="ada", session=session)).result()
    await runner.close()
    print(result.text)


if __name__ == "__main__":
    sys.stdin.read()
    asyncio.run(main(sys.argv[1], sys.argv[2]))
