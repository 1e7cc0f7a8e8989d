"""Checks whether providers accept a list of messages, by the strictest provider's rule in each respect."""

import re
from collections.abc import Iterator, Sequence

from turnwise.facts.content import BlobPart, Content, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart

_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}")


def problems(messages: Sequence[Content]) -> list[str]:
    """Returns the problems, one line each; empty when there are none.

    Messages alternate, begin and end with the user, and have no empty or blank text. A message neither consists of
    thinking alone nor ends with it. Each call has a unique id and exactly one result, in the next message, where results
    come first.
    """
    found = [] if messages else ["There is no message."]
    if messages and messages[0].role != "user":
        found.append("The first message is the agent's.")
    if messages and messages[-1].role != "user":
        found.append("The last message is the agent's.")
    seen: set[str] = set()
    calls: dict[str, str] = {}
    before: Content | None = None
    for number, message in enumerate(messages, 1):
        if before is not None and message.role == before.role:
            found.append(f"Message {number}: two of {message.role!r} stand side by side.")
        found += [f"Message {number}: {wrong}" for wrong in _in_message(message, calls)]
        calls = {call.call_id: call.tool for call in message.tool_calls}
        ids = [call.call_id for call in message.tool_calls]
        found += [f"Message {number}: the call id {id_!r} is used twice." for id_ in _repeated(ids, seen)]
        seen.update(ids)
        before = message
    return found


def _in_message(message: Content, called: dict[str, str]) -> Iterator[str]:
    """Yields the problems of one message.

    Args:
        asked: The tools called in the message before, by call id.
    """
    if not message.parts:
        yield "it is empty."
    for part in message.parts:
        if not _is_allowed(part, message.role):
            yield f"a part of kind {part.kind!r} cannot be the {message.role}'s."
        if isinstance(part, TextPart) and not part.text.strip():
            yield "a text is blank."
        if isinstance(part, ToolCallPart) and not _TOOL.fullmatch(part.tool):
            yield f"{part.tool!r} cannot be a tool's name."
    if message.parts and isinstance(message.parts[-1], ThinkingPart):
        yield "it ends with thinking."
    yield from _results(message, called)


def _is_allowed(part: Part, role: str) -> bool:
    if isinstance(part, TextPart):
        return True
    if role == "agent":
        return isinstance(part, ThinkingPart | ToolCallPart)
    return isinstance(part, BlobPart | ToolResultPart)


def _results(message: Content, called: dict[str, str]) -> Iterator[str]:
    """Yields the problems of a message's tool results: not first, missing, repeated, or without a call."""
    results = message.tool_results
    if any(not isinstance(part, ToolResultPart) for part in message.parts[: len(results)]):
        yield "its results do not stand first."
    result_ids = [result.call_id for result in results]
    for id_ in called:
        if result_ids.count(id_) != 1:
            yield f"the call {id_!r} has {result_ids.count(id_)} results."
    for result in results:
        if result.call_id not in called:
            yield f"the result {result.call_id!r} has no call in the message before."
        elif result.tool != called[result.call_id]:
            yield f"the result {result.call_id!r} names another tool than its call."


def _repeated(ids: Sequence[str], seen: set[str]) -> list[str]:
    return [id_ for place, id_ in enumerate(ids) if id_ in seen or id_ in ids[:place]]
