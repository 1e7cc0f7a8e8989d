"""The texts that agents get about their tasks."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from pydantic import JsonValue

from turnwise.facts.content import Content, Part, TextPart
from turnwise.ports.assignment import AssignedTask
from turnwise.tools import names

SUCCEEDED, FAILED, END_TURN = names.SUCCEEDED, names.FAILED, names.END_TURN
"""The tools by which a model reports the end of its tasks or of its turn."""


class HandoffNote(NamedTuple):
    """The note of an agent that ended its turn, for the next agent."""

    by: str
    content: Content


def brief(tasks: Sequence[AssignedTask], request: Content | None, notes: Sequence[HandoffNote]) -> Content:
    """Returns the message that opens an agent's turn.

    Args:
        tasks: The turn's tasks.
        request: The flow's request; None if the agent reads it in the log.
        notes: The notes of agents that ended their turns.
    """
    lines: list[str] = []
    more: list[Part] = []
    if request is not None and request.parts:
        lines += _under_heading("The request:", request.text)
        more += [part for part in request.parts if not isinstance(part, TextPart)]
    for task in tasks:
        lines += _task_lines(task)
    for note in notes:
        lines += _under_heading(f"{note.by} tells you:", note.content.text)
        more += [part for part in note.content.parts if not isinstance(part, TextPart)]
    return Content(role="user", parts=(TextPart(text="\n".join(lines)), *more))


def instructions(flow: str, tasks: Sequence[AssignedTask], others: Sequence[str]) -> str:
    """Returns the instructions on how to report the end of tasks. `others` are the flow's other agents."""
    names = ", ".join(repr(task.name) for task in tasks)
    subject = f"the task {names}" if len(tasks) == 1 else f"the tasks {names}"
    sentences = [
        f"You work in {flow!r}, on {subject}. A task is done only when you have called its {SUCCEEDED} tool with its result; "
        f"plain text does not end it. When it cannot be done, call {FAILED} with the reason."
    ]
    if others:
        sentences.append(
            f"When a colleague has to go on before your tasks are done, call {END_TURN}. Your colleagues: {', '.join(others)}."
        )
    return " ".join(sentences)


def part_instructions(others: Sequence[str]) -> str:
    """Returns the instructions for answering one part of a request. `others` answer the rest; may be empty."""
    if not others:
        return ""
    return (
        "The request asks several agents for something. Do and answer only what is yours in it; the rest is answered at the "
        f"same time by {', '.join(others)}."
    )


def result_text(value: JsonValue) -> str:
    """Returns a result as text: a string unchanged, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _task_lines(task: AssignedTask) -> list[str]:
    """Returns the lines about one task: objective, schema of the result, results it builds on."""
    lines = [f"Your task {task.name!r}: {task.objective}".rstrip(": ")]
    if task.result is not None:
        lines.append(f"Its result has this JSON schema: {json.dumps(task.result, ensure_ascii=False)}")
    if task.given:
        lines.append("It builds on:")
        for name, value in task.given.items():
            lines += _under_heading(f"- {name}:", result_text(value))
    return lines


def _under_heading(heading: str, text: str) -> list[str]:
    """Puts a text after its heading: one line beside it, several lines indented below it.

    No line of the text can therefore look like a heading.
    """
    lines = text.splitlines()
    return [heading, *(f"    {line}" for line in lines)] if len(lines) > 1 else [f"{heading} {''.join(lines)}"]
