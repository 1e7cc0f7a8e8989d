"""The MCP protocol over standard input and output: one JSON-RPC message a line."""

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
    """Serves one client over lines. `is_cut` tells whether the input ended with requests left unanswered at the timeout.

    Args:
        write: Writes one line. Raises OSError when the reader is gone.
        end_streams: Ends the requests that listen for changes. Called before their answers are waited for.
    """

    def __init__(self, server: Server[Any], write: Write, end_streams: Callable[[], None] = lambda: None) -> None:
        self._server, self._write, self.is_cut = server, write, False
        self._end_streams = end_streams
        self._pending = set[RequestId]()
        self._is_idle = anyio.Event()
        self._is_idle.set()

    async def serve(self, lines: AsyncIterator[bytes], seconds: float) -> None:
        """Serves until the input ends and every request is answered, or the reader is gone.

        Args:
            seconds: Timeout for open requests after the input has ended.
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
                        await self._accept(line, into, errors)
                # The library drops open requests once its input is closed.
                with anyio.move_on_after(seconds) as deadline:
                    await self.wait_idle()
                self.is_cut = deadline.cancelled_caught

    async def wait_idle(self) -> None:
        """Ends the streams, and waits until every request is answered."""
        self._end_streams()
        while self._pending:
            await self._is_idle.wait()

    async def _accept(
        self,
        line: bytes,
        into: MemoryObjectSendStream[SessionMessage | Exception],
        errors: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        """Parses one line and passes the message on. An invalid line gets an error response. Requests count as pending."""
        message = _message_in(line)
        if isinstance(message, ErrorData):
            await errors.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=None, error=message)))
            return
        if isinstance(message, JSONRPCRequest):
            self._pending.add(coerce_request_id(message.id))
            if self._is_idle.is_set():  # waiters on earlier requests wait for this one, too
                self._is_idle = anyio.Event()
        if isinstance(message, JSONRPCNotification) and message.method == CANCELLED:
            self._mark_answered(cancelled_request_id_from_params(message.params))
        await into.send(SessionMessage(message))

    async def _write_responses(self, out: MemoryObjectReceiveStream[SessionMessage], scope: anyio.CancelScope) -> None:
        """Writes the messages as lines. When nobody reads them any more, ends the server."""
        async with out:
            async for item in out:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
                try:
                    await self._write(line)
                except OSError:
                    self._pending.clear()
                    self._is_idle.set()
                    scope.cancel()
                if isinstance(item.message, JSONRPCResponse | JSONRPCError):
                    self._mark_answered(item.message.id)

    def _mark_answered(self, id_: RequestId | None) -> None:
        if id_ is not None:
            self._pending.discard(coerce_request_id(id_))
        if not self._pending:
            self._is_idle.set()


def _message_in(line: bytes) -> JSONRPCMessage | ErrorData:
    """Parses a line; an ErrorData describes an invalid one."""
    try:
        value = from_json(line, allow_inf_nan=False)
    except ValueError:
        return ErrorData(code=PARSE_ERROR, message="The line is not JSON.")
    try:
        message = jsonrpc_message_adapter.validate_python(value, by_name=False)
    except ValidationError:
        return ErrorData(code=INVALID_REQUEST, message="The line is not a JSON-RPC message.")
    if isinstance(message, JSONRPCNotification) and "id" in value:
        # The library would treat a request with an invalid id as a notification, and never answer it.
        return ErrorData(code=INVALID_REQUEST, message="The message's id is neither a number nor a string.")
    return message
