"""Anthropic's messages."""

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from llm_servers.answers import Answer, Body, Fault, pieces
from llm_servers.server import Asked, FakeService, Refused

_ID = re.compile(r"[A-Za-z0-9_-]+")
_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class FakeAnthropic(FakeService):
    """`url` is its base URL. It takes back no thinking but what it signed itself."""

    path = "/v1/messages"

    @property
    def url(self) -> str:
        return self.origin

    def check(self, asked: Asked) -> None:
        brought = asked.headers.get("x-api-key") or asked.headers.get("authorization", "").removeprefix("Bearer ")
        if self.key is not None and brought != self.key:
            raise Refused(f"invalid x-api-key {brought}", 401)
        if "anthropic-version" not in asked.headers:
            raise Refused("anthropic-version: header is required")
        body = asked.body
        if not isinstance(body.get("model"), str) or not isinstance(body.get("max_tokens"), int):
            raise Refused("model and max_tokens: Field required")
        names = [tool["name"] for tool in body.get("tools", [])]
        if len(set(names)) != len(names):
            raise Refused("tools: Tool names must be unique.")
        if any(tool["input_schema"].get("type") != "object" for tool in body.get("tools", [])):
            raise Refused("tools.0.custom.input_schema.type: Input should be 'object'")
        if not names and "tool_choice" in body:
            raise Refused("tool_choice may only be specified while providing tools")
        _check_messages(body.get("messages"))
        _check_tool_blocks(body["messages"], has_tools=bool(names), thinks="thinking" in body)

    def whole(self, answer: Answer, body: Body) -> Body:
        return {**self._head(answer, body), "content": self._blocks(answer), "stop_reason": _stop(answer)}

    def stream(self, answer: Answer, body: Body) -> Iterator[bytes]:
        head = {**self._head(answer, body), "content": [], "stop_reason": None}
        yield _event({"type": "message_start", "message": head})
        for index, block in enumerate(self._blocks(answer)):
            empty, deltas = _streamed(block)
            yield _event({"type": "content_block_start", "index": index, "content_block": empty})
            for delta in deltas:
                yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        end = {"stop_reason": _stop(answer), "stop_sequence": None}
        yield _event({"type": "message_delta", "delta": end, "usage": {"output_tokens": answer.output_tokens}})
        yield _event({"type": "message_stop"})

    def fault(self, fault: Fault) -> Body:
        kind = fault.kind or _KINDS.get(fault.status, "api_error" if fault.status >= 500 else "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": fault.message}, "request_id": "req_1"}

    def fault_event(self, fault: Fault) -> bytes:
        return _event(self.fault(fault))

    def _head(self, answer: Answer, body: Body) -> Body:
        fresh = answer.input_tokens - answer.cached_tokens
        usage = {
            "input_tokens": fresh,
            "cache_read_input_tokens": answer.cached_tokens,
            "cache_creation_input_tokens": 0,
            "output_tokens": answer.output_tokens,
        }
        head = {"id": self.new_id("msg_"), "type": "message", "role": "assistant", "model": body["model"]}
        return {**head, "stop_sequence": None, "usage": usage}

    def _blocks(self, answer: Answer) -> list[Body]:
        blocks: list[Body] = []
        if answer.thinking:
            blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": signature(answer.thinking)})
        if answer.text:
            blocks.append({"type": "text", "text": answer.text})
        ids = answer.ids or tuple(self.new_id("toolu_") for _ in answer.calls)
        for call_id, (tool, given) in zip(ids, answer.calls, strict=True):
            blocks.append({"type": "tool_use", "id": call_id, "name": tool, "input": given})
        return blocks


def signature(thinking: str) -> str:
    """What Anthropic signs thinking with, played: it belongs to this text alone."""
    return hashlib.sha256(thinking.encode()).hexdigest()


def _streamed(block: Body) -> tuple[Body, list[Body]]:
    """A block as it begins, and what it grows by."""
    match block["type"]:
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]
        case "text":
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
    text = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(text)]


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise Refused("messages: at least one message is required")
    waiting, ids = list[str](), set[str]()
    for number, message in enumerate(messages):
        if message["role"] != ("user" if number % 2 == 0 else "assistant"):
            raise Refused(f"messages.{number}: roles must alternate between user and assistant, beginning with user")
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not blocks:
            raise Refused(f"messages.{number}: all messages must have non-empty content")
        if message["role"] == "user":
            _check_results(blocks, waiting, number)
            waiting = []
        for block in blocks:
            _check_block(block, message["role"], number, ids)
            if block["type"] == "tool_use":
                waiting.append(block["id"])
    if len(messages) % 2 == 0:
        raise Refused("This model does not support assistant message prefill. The conversation must end with a user message.")


def _check_tool_blocks(messages: list[Body], *, has_tools: bool, thinks: bool) -> None:
    """Calls need tools; and who thinks has to bring back the thoughts before the call whose result it sends."""
    kinds = [[block["type"] for block in each["content"]] if isinstance(each["content"], list) else [] for each in messages]
    if not has_tools and any("tool_use" in each or "tool_result" in each for each in kinds):
        raise Refused("Requests which include `tool_use` or `tool_result` blocks must define tools.")
    if thinks and "tool_result" in kinds[-1] and kinds[-2][0] != "thinking":
        raise Refused(f"messages.{len(messages) - 2}.content.0.type: Expected `thinking`, but found `{kinds[-2][0]}`.")


def _check_results(blocks: list[Body], waiting: list[str], number: int) -> None:
    kinds = [block["type"] == "tool_result" for block in blocks]
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    if unknown := [call_id for call_id in answered if call_id not in waiting]:
        raise Refused(f"messages.{number}.content: unexpected `tool_use_id` found in `tool_result` blocks: {unknown}.")
    if sorted(answered) != sorted(waiting):
        missing = [call_id for call_id in waiting if call_id not in answered]
        raise Refused(f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks after: {missing}.")
    if kinds != sorted(kinds, reverse=True):
        raise Refused(f"messages.{number}: `tool_result` blocks must come first.")


def _check_block(block: Body, role: str, number: int, ids: set[str]) -> None:
    match role, block["type"]:
        case (_, "text"):
            if not block["text"].strip():
                raise Refused(f"messages.{number}: text content blocks must contain non-whitespace text")
        case ("assistant", "thinking"):
            if block["signature"] != signature(block["thinking"]):
                raise Refused(f"messages.{number}.content.0: Invalid `signature` in `thinking` block")
        case ("assistant", "tool_use"):
            if not _ID.fullmatch(block["id"]) or block["id"] in ids:
                raise Refused(f"messages.{number}: `tool_use` ids must be unique and match '^[a-zA-Z0-9_-]+$'")
            if not isinstance(block["input"], dict):
                raise Refused(f"messages.{number}: tool_use.input: Input should be a valid dictionary")
            ids.add(block["id"])
        case ("user", "tool_result"):
            content = block.get("content", "")
            for inner in content if isinstance(content, list) else []:
                _check_block(inner, role, number, ids)
        case ("user", "image" | "document"):
            pass
        case _:
            raise Refused(f"messages.{number}: {block['type']} blocks are not allowed in {role} messages")


def _stop(answer: Answer) -> str:
    usual = "tool_use" if answer.calls else "end_turn"
    return {"": usual, "length": "max_tokens", "filtered": "refusal"}[answer.finish]


def _event(data: Body) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
