"""Converts waits for a person to AG-UI interrupts, and `resume` entries to answers. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ag_ui.core import ResumeEntry
from pydantic import JsonValue

from turnwise.agents.approval import Answer
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.events import Event
from turnwise.facts.waits import Wait
from turnwise.gateway.ag_ui.messages import result_text
from turnwise.gateway.ag_ui.schema import Wire
from turnwise.gateway.redaction import Redactor

REASONS: Mapping[str, str] = MappingProxyType({"reply": "input_required", "confirmation": "tool_call"})
"""Interrupt reasons by kind of wait. Other kinds wait for a program and are not interrupts."""
SCHEMAS: Mapping[str, Any] = MappingProxyType(
    {
        "reply": {"type": "string"},
        "confirmation": {
            "type": "object",
            "properties": {"approved": {"type": "boolean"}, "reason": {"type": "string"}},
            "required": ["approved"],
        },
    }
)
"""JSON schemas of the answers, by kind of wait."""
TEXTS = ("text", "answer", "response", "value", "message")
"""Fields of an object answer that may hold its text, in this order."""
UNANSWERED = "Nobody answered."


class InterruptAnswer(NamedTuple):
    """The answer to one wait."""

    wait: Wait
    answer: str | Answer | None
    """None = cancel the waiting invocation."""


def waits_for_person(waits: Iterable[Wait], *, questions: bool = True) -> list[Wait]:
    """Returns the waits that a person answers, in the order in which they began.

    Args:
        questions: Whether to include questions that a plain message can answer.
    """
    person_waits = [wait for wait in waits if wait.kind in REASONS and (questions or wait.kind != "reply")]
    newest = list(dict.fromkeys(wait.invocation_id for wait in person_waits))
    return sorted(person_waits, key=lambda wait: -newest.index(wait.invocation_id))


def interrupts_of(waits: Iterable[Wait], view: Redactor) -> Iterator[tuple[Wire, Event]]:
    """Yields the interrupt of each wait of a log, with the event that asks for it."""
    for wait in waits:
        if wait.event is not None:
            yield _interrupt(wait, view.event(wait.event)), wait.event


def read_answers(entries: Sequence[ResumeEntry], waits: Sequence[Wait]) -> tuple[list[InterruptAnswer], list[str]]:
    """Matches `resume` entries to open waits.

    Returns:
        The answers, and the ids of entries that match no open wait.

    Raises:
        RequestInvalid: An answer has the wrong type, or an interrupt is answered twice.
    """
    open_ = {wait.id: wait for wait in waits}
    answers, unknown, seen = list[InterruptAnswer](), list[str](), set[str]()
    for index, entry in enumerate(entries):
        where = ("body", "resume", index)
        if entry.interrupt_id in seen:
            raise RequestInvalid("This interrupt is answered twice.", fix="Leave one out.", where=where)
        seen.add(entry.interrupt_id)
        if entry.interrupt_id in open_:
            answers.append(_parse_answer(entry, open_[entry.interrupt_id], (*where, "payload")))
        else:
            unknown.append(entry.interrupt_id)
    stopped = {answer.wait.invocation_id for answer in answers if answer.answer is None}
    return [answer for answer in answers if answer.answer is None or answer.wait.invocation_id not in stopped], unknown


def _interrupt(wait: Wait, shown: Event) -> Wire:
    """Returns a wait as an AG-UI interrupt: id, reason, the schema of the answer, and what is asked."""
    asked = wait.call.arguments if wait.call and wait.kind == "confirmation" else {}
    metadata: dict[str, JsonValue] = {"agent": wait.agent, "invocation_id": wait.invocation_id}
    metadata |= {name: asked.get(name) for name in ("tool", "arguments") if asked}
    interrupt: Wire = {"id": wait.id, "reason": REASONS[wait.kind], "responseSchema": SCHEMAS[wait.kind]}
    optional = {
        "message": shown.text or None,
        "toolCallId": asked.get("call"),
        "expiresAt": wait.expires_at.isoformat() if wait.expires_at else None,
    }
    return {**interrupt, **{name: value for name, value in optional.items() if value}, "metadata": {"turnwise": metadata}}


def _parse_answer(entry: ResumeEntry, wait: Wait, where: Collection[str | int]) -> InterruptAnswer:
    """Reads the answer of a `resume` entry: a text for a question, an approval for a confirmation.

    Raises RequestInvalid for a missing or invalid answer.
    """
    if entry.status == "cancelled":
        return InterruptAnswer(wait, None if wait.kind == "reply" else Answer(False, UNANSWERED))
    payload, location = entry.payload, tuple(where)
    if wait.kind == "reply":
        text = next((payload[name] for name in TEXTS if payload.get(name)), payload) if isinstance(payload, dict) else payload
        reply = result_text(text)
        if not reply.strip():
            raise RequestInvalid("The question has no answer.", fix="Send a text.", where=location)
        return InterruptAnswer(wait, reply)
    reason = payload.get("reason") if isinstance(payload, dict) else None
    approved = payload.get("approved") if isinstance(payload, dict) else payload
    if not isinstance(approved, bool):
        raise RequestInvalid("The approval is missing.", fix='Send {"approved": true} or false.', where=location)
    return InterruptAnswer(wait, Answer(approved, reason if isinstance(reason, str) else ""))
