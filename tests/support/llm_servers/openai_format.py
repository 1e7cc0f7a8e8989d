"""OpenAI's chat completions, as many other services speak them too."""

import json
import re
from collections.abc import Iterator
from typing import Any

from llm_servers.answers import Answer, Body, Fault, pieces
from llm_servers.server import Asked, FakeService, Refused

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KINDS = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


class FakeOpenAI(FakeService):
    """`url` is its base URL. Thinking goes out as `reasoning_content`."""

    path = "/v1/chat/completions"

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    def check(self, asked: Asked) -> None:
        if self.key is not None and asked.headers.get("authorization") != f"Bearer {self.key}":
            raise Refused(f"Incorrect API key provided: {asked.headers.get('authorization', '')[7:]}.", 401)
        body = asked.body
        if not isinstance(body.get("model"), str):
            raise Refused("you must provide a model parameter")
        _check_tools(body)
        _check_messages(body.get("messages"))

    def whole(self, answer: Answer, body: Body) -> Body:
        message: Body = {"role": "assistant", "content": answer.text or None}
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if answer.calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": tool, "arguments": arguments}}
                for call_id, tool, arguments in self._calls(answer)
            ]
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer), "logprobs": None}
        return {**self._head(body, "chat.completion"), "choices": [choice], "usage": _usage(answer)}

    def stream(self, answer: Answer, body: Body) -> Iterator[bytes]:
        head = self._head(body, "chat.completion.chunk")
        for delta in self._deltas(answer):
            yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield _event({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": _finish(answer)}]})
        if body.get("stream_options", {}).get("include_usage"):
            yield _event({**head, "choices": [], "usage": _usage(answer)})
        yield b"data: [DONE]\n\n"

    def fault(self, fault: Fault) -> Body:
        kind = fault.kind or _KINDS.get(fault.status, "server_error" if fault.status >= 500 else "invalid_request_error")
        return {"error": {"message": fault.message, "type": kind, "param": None, "code": kind}}

    def fault_event(self, fault: Fault) -> bytes:
        return _event(self.fault(fault))

    def _deltas(self, answer: Answer) -> Iterator[Body]:
        yield {"role": "assistant", "content": ""}
        yield from ({"reasoning_content": piece} for piece in pieces(answer.thinking))
        yield from ({"content": piece} for piece in pieces(answer.text))
        for index, (call_id, tool, arguments) in enumerate(self._calls(answer)):
            named = {"name": tool, "arguments": ""}
            yield {"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": named}]}
            for piece in pieces(arguments):
                yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}

    def _calls(self, answer: Answer) -> list[tuple[str, str, str]]:
        ids = answer.ids or tuple(self.new_id("call_") for _ in answer.calls)
        texts = [given if isinstance(given, str) else json.dumps(given) for _, given in answer.calls]
        return [(call_id, tool, text) for call_id, (tool, _), text in zip(ids, answer.calls, texts, strict=True)]

    def _head(self, body: Body, kind: str) -> Body:
        return {"id": self.new_id("chatcmpl-"), "object": kind, "created": 1_700_000_000, "model": body["model"]}


def _check_tools(body: Body) -> None:
    names = []
    for tool in body.get("tools", []):
        function = tool["function"]
        if not _NAME.fullmatch(function["name"]):
            raise Refused("Invalid 'tools[0].function.name': string does not match pattern.")
        if function.get("parameters", {}).get("type") != "object":
            raise Refused(f"Invalid schema for function {function['name']!r}: schema must be of type 'object'.")
        names.append(function["name"])
    if len(set(names)) != len(names):
        raise Refused("Tool names must be unique.")
    if not names and ("tool_choice" in body or "parallel_tool_calls" in body):
        raise Refused("'tool_choice' is only allowed when 'tools' are specified.")


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise Refused("Invalid 'messages': empty array.")
    before, waiting, ids = "", list[str](), set[str]()
    for number, message in enumerate(messages):
        role = message.get("role")
        if role not in ("system", "developer", "user", "assistant", "tool"):
            raise Refused(f"Invalid value: {role!r} in messages[{number}].role.")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                raise Refused(f"messages[{number}]: a 'tool' message must answer a tool call of the message before.")
            waiting.remove(message["tool_call_id"])
        elif waiting:
            raise Refused(f"An assistant message with 'tool_calls' must be followed by tool messages for: {waiting}.")
        if role == before and role in ("user", "assistant"):
            raise Refused(f"messages[{number}]: two {role} messages in a row.")
        if role == "assistant":
            waiting = _calls_in(message, number, ids)
        elif not message.get("content"):
            raise Refused(f"Invalid value for 'content': expected a string, got nothing in messages[{number}].")
        before = role
    if waiting or before == "assistant":
        raise Refused("The last message must come from the user or a tool.")


def _calls_in(message: Body, number: int, ids: set[str]) -> list[str]:
    """The ids of its calls. ids: those of all calls before; it gets these too."""
    calls = message.get("tool_calls") or []
    if not calls and not message.get("content"):
        raise Refused(f"messages[{number}]: an assistant message needs content or tool calls.")
    for call in calls:
        if len(call["id"]) > 40:
            raise Refused("Invalid 'tool_calls[0].id': string too long. Expected a string with maximum length 40.")
        if call["id"] in ids:
            raise Refused(f"Duplicate value for 'tool_call_id' of {call['id']!r}.")
        if not isinstance(json.loads(call["function"]["arguments"]), dict):
            raise Refused("The arguments of a tool call must be a JSON object.")
        ids.add(call["id"])
    return [call["id"] for call in calls]


def _finish(answer: Answer) -> str:
    usual = "tool_calls" if answer.calls else "stop"
    return {"": usual, "length": "length", "filtered": "content_filter"}[answer.finish]


def _usage(answer: Answer) -> Body:
    return {
        "prompt_tokens": answer.input_tokens,
        "completion_tokens": answer.output_tokens,
        "total_tokens": answer.input_tokens + answer.output_tokens,
        "prompt_tokens_details": {"cached_tokens": answer.cached_tokens},
    }


def _event(data: Body) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()
