"""A real A2A server on this machine, whose agent does what a test wants."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse

Work = Callable[["Desk"], Awaitable[None]]


class Desk:
    """One message at the remote agent: what came, and what may be done."""

    def __init__(self, context: RequestContext, queue: EventQueue) -> None:
        self.context, self.queue = context, queue
        assert context.task_id is not None
        assert context.context_id is not None
        self.updater = TaskUpdater(queue, context.task_id, context.context_id)

    @property
    def text(self) -> str:
        assert self.context.message is not None
        return "\n".join(part.text for part in self.context.message.parts if part.text)

    async def open(self) -> None:
        """Makes it a task."""
        if self.context.current_task is None:
            assert self.context.message is not None
            await self.queue.enqueue_event(new_task_from_user_message(self.context.message))
        await self.updater.start_work()

    def says(self, *parts: Part) -> Message:
        return self.updater.new_agent_message(list(parts))


class Remote(AgentExecutor):
    """An agent that does `work`. seen: the messages; cancelled: the tasks that it was told to leave."""

    def __init__(self, work: Work) -> None:
        self.work, self.seen, self.cancelled = work, list[Any](), list[str]()
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.url = ""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.seen.append(context.message)
        await self.work(Desk(context, event_queue))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.cancelled.append(str(context.task_id))
        await Desk(context, event_queue).updater.cancel()

    def card(self, *, streaming: bool = True, leads_to: str = "") -> AgentCard:
        interface = AgentInterface(url=leads_to or self.url, protocol_binding="JSONRPC", protocol_version="1.0")
        return AgentCard(
            name="guide",
            description="Opening hours.",
            version="1",
            supported_interfaces=[interface],
            capabilities=AgentCapabilities(streaming=streaming),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="hours", name="hours", description="When we open", tags=[], examples=["When?"])],
        )


@asynccontextmanager
async def served(remote: Remote, *, streaming: bool = True, leads_to: str = "") -> AsyncIterator[Remote]:
    """The remote agent at an address of this machine, `remote.url`, as long as the block lasts."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        remote.url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        card = remote.card(streaming=streaming, leads_to=leads_to)
        handler = DefaultRequestHandler(agent_executor=remote, task_store=InMemoryTaskStore(), agent_card=card)
        app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            remote.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
            answer = app if remote.status == 200 else PlainTextResponse("not well", status_code=remote.status)
            await answer(scope, receive, send)

        server = uvicorn.Server(uvicorn.Config(watched, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
        running = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            while not server.started:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
            yield remote
        finally:
            server.should_exit = True
            await running
