"""OpenAI's responses, which its own models speak: what they thought comes sealed, and goes back with the ids of its items."""

import json
from collections.abc import Iterator
from typing import Any

from llm_servers.answers import Answer, Body, pieces
from llm_servers.openai_format import FakeOpenAI
from llm_servers.server import Asked, Refused

_RESULTS = ("function_call", "function_call_output")


class FakeResponses(FakeOpenAI):
    """It keeps nothing, so it demands `store: false`, and that an item of reasoning is followed by what came of it."""

    path = "/v1/responses"

    def check(self, asked: Asked) -> None:
        if asked.body.get("store") is not False:
            raise Refused("Item with id 'rs_1' not found.", 404)
        items = asked.body["input"]
        waiting: list[str] = []
        for item, following in zip(items, [*items[1:], {}], strict=True):
            kind = item.get("type", "message")
            if kind == "reasoning" and (
                not item.get("encrypted_content") or ("role" in following and following["role"] == "user")
            ):
                raise Refused(f"Item {item.get('id')!r} of type 'reasoning' was provided without its required following item.")
            if waiting and kind not in _RESULTS:
                raise Refused(f"No tool output found for function call {waiting[0]}.")
            if kind == "function_call":
                waiting.append(item["call_id"])
            elif kind == "function_call_output" and item["call_id"] not in waiting:
                raise Refused(f"No tool call found for function call output with call_id {item['call_id']}.")
            elif kind == "function_call_output":
                waiting.remove(item["call_id"])
        if waiting:
            raise Refused(f"No tool output found for function call {waiting[0]}.")

    def whole(self, answer: Answer, body: Body) -> Body:
        return self._response(answer, body, list(self._items(answer)), "completed")

    def stream(self, answer: Answer, body: Body) -> Iterator[bytes]:
        items = list(self._items(answer))
        yield _event("response.created", response=self._response(answer, body, [], "in_progress"))
        for place, item in enumerate(items):
            yield _event("response.output_item.added", output_index=place, item=_begun(item))
            yield from _grown(place, item)
            yield _event("response.output_item.done", output_index=place, item=item)
        yield _event("response.completed", response=self._response(answer, body, items, "completed"))

    def _items(self, answer: Answer) -> Iterator[Body]:
        if answer.thinking:
            summary = [{"type": "summary_text", "text": answer.thinking}]
            yield {"type": "reasoning", "id": self.new_id("rs_"), "summary": summary, "encrypted_content": "sealed"}
        if answer.text:
            content = [{"type": "output_text", "text": answer.text, "annotations": []}]
            message = {"type": "message", "id": self.new_id("msg_"), "role": "assistant", "status": "completed"}
            yield {**message, "content": content}
        for call_id, tool, arguments in self._calls(answer):
            call = {"type": "function_call", "id": self.new_id("fc_"), "call_id": call_id, "name": tool}
            yield {**call, "arguments": arguments, "status": "completed"}

    def _response(self, answer: Answer, body: Body, output: list[Body], status: str) -> Body:
        usage = {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": answer.cached_tokens},
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.input_tokens + answer.output_tokens,
        }
        head = {"id": self.new_id("resp_"), "object": "response", "created_at": 1_700_000_000, "model": body["model"]}
        given = {"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}
        return {**head, **given, "status": status, "output": output, "usage": usage}


def _begun(item: Body) -> Body:
    grows: dict[str, Body] = {
        "reasoning": {"summary": [], "encrypted_content": None},
        "message": {"content": []},
        "function_call": {"arguments": ""},
    }
    return {**item, **grows[item["type"]]}


def _grown(place: int, item: Body) -> Iterator[bytes]:
    where: dict[str, Any] = {"output_index": place, "item_id": item["id"]}
    match item["type"]:
        case "reasoning":
            empty = {"type": "summary_text", "text": ""}
            yield _event("response.reasoning_summary_part.added", **where, summary_index=0, part=empty)
            for piece in pieces(item["summary"][0]["text"]):
                yield _event("response.reasoning_summary_text.delta", **where, summary_index=0, delta=piece)
        case "message":
            begun = {"type": "output_text", "text": "", "annotations": []}
            yield _event("response.content_part.added", **where, content_index=0, part=begun)
            for piece in pieces(item["content"][0]["text"]):
                yield _event("response.output_text.delta", **where, content_index=0, delta=piece, logprobs=[])
        case "function_call":
            for piece in pieces(item["arguments"]):
                yield _event("response.function_call_arguments.delta", **where, delta=piece)


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': 0, **data})}\n\n".encode()
