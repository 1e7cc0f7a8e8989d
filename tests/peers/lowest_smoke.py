"""Uses Turnwise as installed: a served app answers a message over HTTP. Run by check_extras.py with the lowest versions."""

import asyncio
import os
import sys
from pathlib import Path

import httpx

from turnwise import load_app
from turnwise.gateway import front_for, serving


async def main(config: Path) -> int:
    app = load_app(config)
    front = front_for(app.runner, app.gateway)
    await app.runner.ready()
    front.ready.set()
    async with serving(front) as gateway, httpx.AsyncClient(base_url=gateway.address) as client:
        sent = {"content": "Where is my order 1001?", "id": "m1"}
        answer = await client.post("/api/v1/sessions/s1/messages", json=sent, timeout=60)
    await app.runner.close()
    print(answer.status_code, answer.json().get("text"))
    return 0 if answer.status_code == 200 and answer.json()["text"] else 1


if __name__ == "__main__":
    os.chdir(Path(sys.argv[1]).parent)
    sys.exit(asyncio.run(main(Path(sys.argv[1]).resolve())))
