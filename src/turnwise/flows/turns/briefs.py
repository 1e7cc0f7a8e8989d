"""What an agent is told of its tasks, in words."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content, Part, TextPart
from turnwise.ports.assignment import AssignedTask
from turnwise.tools import names

SUCCEEDED, FAILED, END_TURN = names.SUCCEEDED, names.FAILED, names.END_TURN
"""Names of the tools by which a model says how its tasks ended."""


class HandoffNote(NamedTuple):
    """What an agent that ended its turn told whoever goes on."""

    by: str
    content: Content


def brief(tasks: Sequence[AssignedTask], request: Content | None, words: Sequence[HandoffNote]) -> Content:
    """What opens an agent's turn. request: what the flow was asked; None = the agent reads it in the log."""
    lines: list[str] = []
    more: list[Part] = []
    if request is not None and request.parts:
        lines += _told_under("The request:", request.text)
        more += [part for part in request.parts if not isinstance(part, TextPart)]
    for task in tasks:
        lines += _told(task)
    for word in words:
        lines += _told_under(f"{word.by} tells you:", word.content.text)
        more += [part for part in word.content.parts if not isinstance(part, TextPart)]
    return Content(role="user", parts=(TextPart(text="\n".join(lines)), *more))


def instructions(flow: str, tasks: Sequence[AssignedTask], others: Sequence[str]) -> str:
    """How a model has to say how its tasks ended. others: who else works in the flow."""
    names = ", ".join(repr(task.name) for task in tasks)
    what = f"the task {names}" if len(tasks) == 1 else f"the tasks {names}"
    told = [
        f"You work in {flow!r}, on {what}. A task is done only when you have called its {SUCCEEDED} tool with its result; "
        f"plain text does not end it. When it cannot be done, call {FAILED} with the reason."
    ]
    if others:
        told.append(
            f"When a colleague has to go on before your tasks are done, call {END_TURN}. Your colleagues: {', '.join(others)}."
        )
    return " ".join(told)


def part_instructions(others: Sequence[str]) -> str:
    """What a model has to know that answers a part of what the user wants. others: who sees to the rest; may be nobody."""
    if not others:
        return ""
    return (
        "The request asks several agents for something. Do and answer only what is yours in it; the rest is answered at the "
        f"same time by {', '.join(others)}."
    )


def as_words(value: JsonValue) -> str:
    """A result as one reads it: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _told(task: AssignedTask) -> list[str]:
    lines = [f"Your task {task.name!r}: {task.objective}".rstrip(": ")]
    if task.result is not None:
        lines.append(f"Its result has this JSON schema: {json.dumps(task.result, ensure_ascii=False)}")
    if task.given:
        lines.append("It builds on:")
        for name, value in task.given.items():
            lines += _told_under(f"- {name}:", as_words(value))
    return lines


def _told_under(heading: str, text: str) -> list[str]:
    """A text of one line beside its heading, a longer one below it: none of its lines stands where a heading does."""
    lines = text.splitlines()
    return [heading, *(f"    {line}" for line in lines)] if len(lines) > 1 else [f"{heading} {''.join(lines)}"]
