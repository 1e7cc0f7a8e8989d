"""Runs the public compliance suite of Open Responses against a gateway: `./dev conformance DIR`, DIR a checkout of it."""

import asyncio
import sys
from pathlib import Path

from gateway_play import served
from responses_play import caller_of_tools

from turnwise import Runner
from turnwise.stores.sql import SqlSessionStore

SUITE = "bin/compliance-test.ts"


async def main(directory: Path, bun: str, *options: str) -> int:
    """The suite's exit status."""
    runner = Runner(caller_of_tools(), store=SqlSessionStore("sqlite://"))
    async with served(runner) as gateway:
        asked = ("--base-url", f"{gateway.address}/v1", "--api-key", "none", "--model", "turnwise", *options)
        suite = await asyncio.create_subprocess_exec(bun, "run", SUITE, *asked, cwd=directory)
        status = await suite.wait()
    await runner.close()
    return status


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if not (place / SUITE).is_file():
        sys.exit(f"{place} holds no {SUITE}: clone https://github.com/openresponses/openresponses and run `bun install` there.")
    sys.exit(asyncio.run(main(place, *sys.argv[2:])))
