"""The protocol over lines: each is a message, as between a program and the one that started it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server import Server
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)
from mcp_types.jsonrpc import JSONRPCMessage, jsonrpc_message_adapter
from pydantic import ValidationError
from pydantic_core import from_json

Write = Callable[[bytes], Awaitable[None]]
CANCELLED = "notifications/cancelled"


class StdioServer:
    """A server that is spoken with in lines. For one conversation.

    write: puts a line out, and raises OSError when nobody reads any more. is_cut: whether the lines ended and not all that was
    asked was answered in time.
    """

    def __init__(self, server: Server[Any], write: Write) -> None:
        self._server, self._write, self.is_cut = server, write, False
        self._asked = set[RequestId]()
        """What is not answered yet, by the ids that the library takes for the same."""
        self._quiet = anyio.Event()
        self._quiet.set()

    async def serve(self, lines: AsyncIterator[bytes], seconds: float) -> None:
        """Returns when the lines have ended and all that was asked is answered, which may take so many seconds then; or when
        nobody reads the answers any more.
        """
        into, incoming = anyio.create_memory_object_stream[SessionMessage | Exception]()
        outgoing, out = anyio.create_memory_object_stream[SessionMessage]()
        errors = outgoing.clone()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write_responses, out, tasks.cancel_scope)
            tasks.start_soon(self._server.run, incoming, outgoing, self._server.create_initialization_options())
            async with into, errors:
                async for line in lines:
                    if line.strip():
                        await self._take(line, into, errors)
                # The library drops what it works on when nothing more can come.
                with anyio.move_on_after(seconds) as time:
                    await self.quiet()
                self.is_cut = time.cancelled_caught

    async def quiet(self) -> None:
        """Returns when nothing is asked that is not answered."""
        while self._asked:
            await self._quiet.wait()

    async def _take(
        self,
        line: bytes,
        into: MemoryObjectSendStream[SessionMessage | Exception],
        errors: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        message = _message_in(line)
        if isinstance(message, ErrorData):
            await errors.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=message)))
            return
        if isinstance(message, JSONRPCRequest):
            self._asked.add(coerce_request_id(message.id))
            if self._quiet.is_set():  # whoever waits for the end of others waits for the end of this, too
                self._quiet = anyio.Event()
        if isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            self._forget(cancelled_request_id_from_params(message.params))
        await into.send(SessionMessage(message))

    async def _write_responses(self, out: MemoryObjectReceiveStream[SessionMessage], scope: anyio.CancelScope) -> None:
        async with out:
            async for item in out:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                try:
                    await self._write(line)
                except OSError:
                    self._asked.clear()
                    self._quiet.set()
                    scope.cancel()
                if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                    self._forget(item.message.id)

    def _forget(self, id_: RequestId | None) -> None:
        if id_ is not None:
            self._asked.discard(coerce_request_id(id_))
        if not self._asked:
            self._quiet.set()


def _message_in(line: bytes) -> JSONRPCMessage | ErrorData:
    """The message, or what is wrong with the line."""
    try:
        given = from_json(line, allow_inf_nan=False)
    except ValueError:
        return ErrorData(code=PARSE_ERROR, message="The line is not JSON.")
    try:
        message = jsonrpc_message_adapter.validate_python(given, by_name=False)
    except ValidationError:
        return ErrorData(code=INVALID_REQUEST, message="The line is no message of JSON-RPC.")
    if isinstance(message, JSONRPCNotification) and "id" in given:
        # The library would take a request with an id that is none for a notification, and never answer it.
        return ErrorData(code=INVALID_REQUEST, message="The message's id is neither a number nor a text.")
    return message
