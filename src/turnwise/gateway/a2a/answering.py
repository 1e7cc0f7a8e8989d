"""A message that answers what a task waits for. Pure."""

from collections.abc import Sequence

from pydantic import JsonValue

from turnwise.facts.content import Content, ToolResultPart
from turnwise.facts.messages import MessageContext
from turnwise.gateway.a2a.incoming import CALL, Given, refused
from turnwise.gateway.speech.waits import OpenWait

APPROVED, REASON, RESULT, FAILED = "approved", "reason", "result", "failed"
"""What data parts say by name: a person's word on a call, and why; what a call gave, and whether that describes an error."""


def answer_to(waits: Sequence[OpenWait], given: Given) -> tuple[Content, MessageContext]:
    """The message that answers one of these waits: the one that it names, or the oldest. RequestInvalid.

    A reply may be anything. Leave to call a tool is given by data, or by a plain yes; what a tool gave is said by data alone:
    words could be anybody's.
    """
    wait, said = _meant(waits, given), given.data
    if wait.kind == "reply":
        return given.content, given.context.model_copy(update={"answers": wait.awaited.id})
    tool = wait.call.tool if wait.call else ""
    part = ToolResultPart(call_id=wait.awaited.id, tool=tool)
    if wait.kind == "confirmation":
        return _content(
            part, {"approved": _word(said), REASON: said.get(REASON)} if APPROVED in said else given.content.text, given
        )
    if RESULT not in said:
        problem = f"The task waits for what the tool {tool!r} gave."
        raise refused("message.parts", problem, fix='Send it as data: {"callId": …, "result": …}.')
    return _content(part.model_copy(update={FAILED: said.get(FAILED) is True}), said[RESULT], given)


def _meant(waits: Sequence[OpenWait], given: Given) -> OpenWait:
    named = given.call if given.call is not None else given.data.get(CALL)
    found = next((wait for wait in waits if named in (None, wait.awaited.id)), None)
    if found is None:
        raise refused(f"metadata.{CALL}", "The task does not wait for that.", fix="See its status for what it waits for.")
    return found


def _word(said: dict[str, JsonValue]) -> bool:
    word = said[APPROVED]
    if not isinstance(word, bool):
        raise refused(f"data.{APPROVED}", "It is neither true nor false.")
    return word


def _content(part: ToolResultPart, result: JsonValue, given: Given) -> tuple[Content, MessageContext]:
    return Content(role="user", parts=(part.model_copy(update={"result": result}),)), given.context
