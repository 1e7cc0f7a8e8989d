"""Marks of prompt injection, in what comes from outside: messages of users and results of tools."""

from collections.abc import Collection

from turnwise.facts.content import Content, ToolResultPart
from turnwise.guardrails.findings import labelled
from turnwise.guardrails.injection_rules import control_tokens, has_phrase, without_hidden
from turnwise.guardrails.replacing import checked_places
from turnwise.guardrails.strings import changed_aside
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place


class InjectionMarks:
    """Takes out what no person writes, and blocks what tells a model to forget its instructions.

    Control tokens of chat templates become `[control token]`, and characters that nobody sees go. A known phrase blocks,
    unless `phrases` is false: a text with a part taken out of a sentence would be no better. Of an answer, only the results
    of tools are looked at. It raises the bar for attackers; it does not keep them all out.
    """

    reach = 0

    def __init__(
        self, *, phrases: bool = True, places: Collection[Place] = ("message", "answer"), name: str = "injection-marks"
    ) -> None:
        self.name, self._phrases = name, phrases
        self._places = frozenset(checked_places(name, places))

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        if place == "tool_call" or place not in self._places:
            return ALLOW
        taken: set[str] = set()

        def change(text: str) -> str:
            if self._phrases and has_phrase(text):
                taken.add("instructions to ignore instructions")
            seen = without_hidden(text)
            left = labelled(seen, control_tokens)
            taken.update(["hidden characters"] if seen != text else [], ["control tokens"] if left != seen else [])
            return left

        left = [
            (await changed_aside(Content(parts=(part,)), place, change)).parts[0]
            if place == "message" or isinstance(part, ToolResultPart)
            else part
            for part in content.parts
        ]
        if not taken:
            return ALLOW
        reason = f"It held {', '.join(sorted(taken))}."
        if "instructions to ignore instructions" in taken:
            return GuardrailVerdict("block", reason=reason)
        return GuardrailVerdict("rewrite", content.model_copy(update={"parts": tuple(left)}), reason)
