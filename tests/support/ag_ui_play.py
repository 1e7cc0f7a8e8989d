"""How tests talk to a gateway with the real client of AG-UI: run by node, in a process of its own."""

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from gateway_play import Served, served

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.facts.gateway import AgUiConfig, GatewayConfig, Protocols

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / ".venv/peers/node/package.json"
CLIENT = Path(__file__).with_name("ag_ui_client.mjs")
NODE = shutil.which("node")
SECONDS = 60
INTERRUPTS = GatewayConfig(protocols=Protocols(ag_ui=AgUiConfig(questions="interrupt")))
"""Agents' questions are interrupts."""

needs_client = pytest.mark.skipif(
    NODE is None or not (PACKAGES.parent / "node_modules/@ag-ui/client").is_dir(),
    reason="node, or @ag-ui/client below .venv/peers/node, is not there: `./dev test` installs it if there is npm.",
)


class Ran(NamedTuple):
    """What came of one run. failed: why the client gave up, or what it was told; None = nothing was wrong. result: of the run.
    pending: calls without a result. messages, state, interrupts: what the client has then.
    """

    events: list[dict[str, Any]]
    failed: str | None
    messages: list[dict[str, Any]]
    state: Any
    interrupts: list[dict[str, Any]]
    result: Any = None
    newMessages: list[dict[str, Any]] | None = None
    pending: list[str] | None = None
    status: int | None = None
    payload: Any = None

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    @property
    def texts(self) -> list[str]:
        """What the client's messages say."""
        return [message["content"] for message in self.messages if message.get("content")]

    def of(self, type_: str) -> list[dict[str, Any]]:
        """The events of that type."""
        return [event for event in self.events if event["type"] == type_]

    def custom(self, name: str) -> list[Any]:
        """What events of ours hold."""
        return [event["value"] for event in self.of("CUSTOM") if event["name"] == f"turnwise.{name}"]


class Front(NamedTuple):
    """A gateway that is served, and the runner behind it."""

    gateway: Served
    runner: Runner

    async def play(self, *steps: Any, thread: str = "t", headers: Any = None, user: str = "", warns: bool = False) -> list[Ran]:
        """What comes of these runs of one client, one after the other; a text is a message of the user's."""
        plan = {
            "packages": str(PACKAGES),
            "url": f"{self.gateway.address}/ag-ui{f'?user={user}' if user else ''}",
            "headers": dict(headers or {}),
            "threadId": thread,
            "steps": [{"say": step} if isinstance(step, str) else step for step in steps],
        }
        assert NODE is not None
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(NODE, str(CLIENT), stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            async with asyncio.timeout(SECONDS):
                told, wrong = await process.communicate(json.dumps(plan).encode())
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == 0, wrong.decode()
        came = json.loads(told)
        assert warns or not came["warnings"], came["warnings"]
        return [Ran(**each) for each in came["came"]]

    async def one(self, step: Any, **options: Any) -> Ran:
        """What comes of one run."""
        (ran,) = await self.play(step, **options)
        return ran

    async def post(self, body: Any, **options: Any) -> tuple[int, list[dict[str, Any]]]:
        """What is answered to a request that no client makes: its status, and the events."""
        answer = await self.gateway.post("/ag-ui", json=body, **options)
        if answer.headers["content-type"].startswith("text/event-stream"):
            lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
            return answer.status_code, [json.loads(line) for line in lines]
        return answer.status_code, [answer.json()]

    async def log(self, session: str = "t", user: str = "local") -> list[tuple[str, str]]:
        """Who said what in a session."""
        events = await self.runner.sessions.events(self.runner.key(user, session))
        return [(event.author, event.text) for event in events if event.text]


@asynccontextmanager
async def fronting(root: Any, gateway: GatewayConfig | None = None, **options: Any) -> AsyncIterator[Front]:
    """A gateway in front of that agent. Options are the runner's."""
    runner = Runner(root, **{"store": SqlSessionStore("sqlite://"), **options})
    try:
        async with served(runner, gateway) as address:
            yield Front(address, runner)
    finally:
        await runner.close()


def run(*messages: Any, thread: str = "t", **more: Any) -> dict[str, Any]:
    """A request's body. A text is a user's message."""
    told = [
        {"id": f"u{n}", "role": "user", "content": each} if isinstance(each, str) else each for n, each in enumerate(messages)
    ]
    return {"threadId": thread, "runId": "r", "messages": told, "protocolVersion": "1.0", **more}


@agent(description="Looks after orders.", patterns=["order"], resume="never")
async def orders(message: str, context: AgentContext) -> str:
    if not any(character.isdigit() for character in message):
        message = (await context.ask("Which number does it have?")).text
    context.state["last"] = message.split()[-1]
    return f"Order {message.split()[-1]} is on its way."


@agent(patterns=["hand over"], resume="never")
async def giver(message: str, context: AgentContext) -> None:
    await context.say("One moment.")
    await context.transfer("orders", message="order 1001")


@agent(patterns=["fail"], resume="never")
async def failing(message: str, context: AgentContext) -> None:
    await context.say("Let me see.")
    raise ValueError("the secret")


@agent(children=[orders, giver, failing], patterns=["hello"])
async def desk(message: str, context: AgentContext) -> None:
    async with context.stream() as out:
        for piece in ("You said: ", message, "."):
            await out.write(piece)
