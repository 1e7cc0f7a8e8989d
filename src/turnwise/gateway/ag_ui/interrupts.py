"""What waits for a person, as interrupts of the protocol, and what answers to them mean. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from ag_ui.core import ResumeEntry
from pydantic import JsonValue

from turnwise.agents.approval import Answer
from turnwise.facts.errors import RequestInvalid
from turnwise.facts.events import Event
from turnwise.gateway.ag_ui.history import result_text
from turnwise.gateway.ag_ui.schema import Wire
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.waits import Wait
from turnwise.transcript.visible import question_of

REASONS: Mapping[str, str] = MappingProxyType({"reply": "input_required", "confirmation": "tool_call"})
"""What waits for a person, by our kind of wait; anything else waits for a program, and is no interrupt."""
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
TEXTS = ("text", "answer", "response", "value", "message")
"""In which field of an answer that is an object its text is looked for."""
UNANSWERED = "Nobody answered."


class InterruptAnswer(NamedTuple):
    """An answer to a wait; None = whoever waits is to stop."""

    wait: Wait
    answer: str | Answer | None


def waits_for_person(waits: Sequence[Wait], *, questions: bool = True) -> list[Wait]:
    """Those of the waits that are a person's to answer, in the order in which they began; without `questions` only those that
    no message answers.
    """
    mine = [wait for wait in waits if wait.kind in REASONS and (questions or wait.kind != "reply")]
    newest = list(dict.fromkeys(wait.invocation_id for wait in mine))
    return sorted(mine, key=lambda wait: -newest.index(wait.invocation_id))


def interrupts_of(waits: Sequence[Wait], events: Iterable[Event], view: Redactor) -> Iterator[tuple[Wire, Event]]:
    """The interrupts for these waits, and the events of the log that ask."""
    asked = {(each.invocation_id, each.actions.awaits.id): each for each in events if each.actions.awaits}
    for wait in waits:
        event = asked.get((wait.invocation_id, wait.call_id))
        if event is not None:
            yield _interrupt(wait, view.event(event)), event


def read_answers(entries: Sequence[ResumeEntry], waits: Sequence[Wait]) -> tuple[list[InterruptAnswer], list[str]]:
    """What the entries decide, and the ids of those that answer nothing. RequestInvalid for an answer of the wrong kind, and
    for two to one interrupt.
    """
    open_ = {wait.call_id: wait for wait in waits}
    found, unknown, seen = list[InterruptAnswer](), list[str](), set[str]()
    for place, entry in enumerate(entries):
        where = ("body", "resume", place)
        if entry.interrupt_id in seen:
            raise RequestInvalid("This interrupt is answered twice.", fix="Leave one out.", where=where)
        seen.add(entry.interrupt_id)
        if entry.interrupt_id in open_:
            found.append(_parse_answer(entry, open_[entry.interrupt_id], (*where, "payload")))
        else:
            unknown.append(entry.interrupt_id)
    stopped = {each.wait.invocation_id for each in found if each.answer is None}
    return [each for each in found if each.answer is None or each.wait.invocation_id not in stopped], unknown


def tool_call_of(event: Event) -> str | None:
    """The call that a person is asked to let be made."""
    question = question_of(event)
    about = question.arguments.get("call") if question else None
    return about if isinstance(about, str) else None


def _interrupt(wait: Wait, shown: Event) -> Wire:
    awaits, question = shown.actions.awaits, question_of(shown)
    about: dict[str, JsonValue] = {"agent": wait.agent, "invocation_id": wait.invocation_id}
    if question is not None:
        about |= {name: question.arguments.get(name) for name in ("tool", "arguments")}
    interrupt: Wire = {"id": wait.call_id, "reason": REASONS[wait.kind], "responseSchema": SCHEMAS[wait.kind]}
    known = {
        "message": shown.text or None,
        "toolCallId": tool_call_of(shown),
        "expiresAt": awaits.expires_at.isoformat() if awaits and awaits.expires_at else None,
    }
    return {**interrupt, **{name: value for name, value in known.items() if value}, "metadata": {"turnwise": about}}


def _parse_answer(entry: ResumeEntry, wait: Wait, where: Collection[str | int]) -> InterruptAnswer:
    if entry.status == "cancelled":
        return InterruptAnswer(wait, None if wait.kind == "reply" else Answer(False, UNANSWERED))
    given, place = entry.payload, tuple(where)
    if wait.kind == "reply":
        text = next((given[name] for name in TEXTS if given.get(name)), given) if isinstance(given, dict) else given
        words = result_text(text)
        if not words.strip():
            raise RequestInvalid("The question has no answer.", fix="Send a text.", where=place)
        return InterruptAnswer(wait, words)
    reason = given.get("reason") if isinstance(given, dict) else None
    approved = given.get("approved") if isinstance(given, dict) else given
    if not isinstance(approved, bool):
        raise RequestInvalid("It is not said whether it is approved.", fix='Send {"approved": true} or false.', where=place)
    return InterruptAnswer(wait, Answer(approved, reason if isinstance(reason, str) else ""))
