"""Detects marks of prompt injection in user messages and tool results."""

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any

import re2

from turnwise.facts.content import Content, ToolResultPart
from turnwise.guardrails.replacing import Finding, checked_places, map_strings_async, spans, with_labels
from turnwise.matching.normalize import normalize
from turnwise.ports.guardrail import ALLOW, GuardrailVerdict, Place

_CONTROL_TOKENS = (
    rb"(?i)<[|\xa6](?:im_start|im_end|im_sep|system|user|assistant|tool|end|endoftext|endofprompt|begin_of_text|end_of_text"
    rb"|start_header_id|end_header_id|eot_id|eom_id|python_tag|start|message|channel|call|return|fim_prefix|fim_suffix"
    rb"|fim_middle|begin_of_sentence|end_of_sentence)[|\xa6]>"
    rb"|\[/?INST\]|\[/?(?:AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|SYSTEM_PROMPT)\]|<</?SYS>>|</?(?:start|end)_of_turn>"
    rb"|<(?:bos|eos|pad)>"
)

_ALL = r"(?:(?:all|any|every|each|absolutely|completely|just|please|the|of|your|my|our|these|those|this) ){0,4}"
_DROP = r"(?:ignore|disregard|forget|override|bypass|neglect|skip|discard)"
_EARLIER = r"(?:previous|prior|above|preceding|earlier|former|foregoing|existing|original|initial|current|system|safety|hidden)"
_ORDERS = r"(?:instructions?|prompts?|directives|commands|guidelines|rules|programming|training|restrictions)"
_PHRASES = (
    rf"\b{_DROP} {_ALL}{_EARLIER}(?: (?:and|or|\w+))?,? {_ORDERS}\b",
    rf"\b{_DROP} {_ALL}{_ORDERS} (?:above|before|(?:that )?you (?:were|have been|got) (?:given|told)"
    r"|given (?:above|before|to you))\b",
    r"\b(?:ignore|disregard|forget) (?:everything|anything|all|what) (?:(?:that )?(?:you (?:were|have been) told"
    r"|(?:was|came|is|i) (?:said |written )?(?:above|before))|above|before this)\b",
    rf"\b(?:reveal|show|print|output|repeat|display|disclose|leak|dump|tell|give)(?: me| us)? {_ALL}"
    r"(?:(?:system|hidden|initial|original|secret|developer|full|entire) ){1,3}(?:prompt|instructions?|message)s?\b",
    r"\b(?:what (?:is|are|was|were)|repeat) your (?:(?:system|hidden|initial|original|secret|developer) ){1,2}"
    r"(?:prompt|instructions?)\b",
    r"\byou are (?:now|no longer) (?:an? )?(?:dan\b|in (?:developer|god|dan|debug|admin|jailbreak) mode|unrestricted|jailbroken"
    r"|bound by)",
    r"\b(?:enable|enter|activate|switch to|turn on) (?:developer|god|dan|jailbreak|unrestricted) mode\b",
    r"\bdo anything now\b",
    r"\b(?:new|updated|real) (?:system )?(?:instructions?|prompt) ?: ",
    r"\bpretend (?:that )?(?:you (?:have|had) no|there are no) (?:rules|restrictions|guidelines|filters|limits)\b",
    r"\b(?:act|respond|answer|behave) (?:as if you had no|without any?) (?:rules|restrictions|guidelines|filters|ethics)\b",
    r"\b(?:ignorier|vergiss|missachte)e?n? (?:sie )?(?:bitte )?(?:alle|die|deine|ihre|jegliche|sämtliche)? ?"
    r"(?:(?:deine|ihre|bisherigen|vorherigen|obigen|früheren|vorigen) ){1,2}"
    r"(?:anweisungen|instruktionen|regeln|vorgaben|befehle)\b",
    r"\b(?:ignore[zrs]?|oublie[zrs]?) (?:toutes )?(?:les|tes|vos) (?:instructions|consignes|règles) "
    r"(?:précédentes|ci-dessus|antérieures)",
    r"\b(?:ignora|olvida|ignore|olvide) (?:todas )?(?:las|tus|sus) (?:instrucciones|indicaciones|órdenes|reglas) "
    r"(?:anteriores|previas|de arriba)\b",
)

_FLAG, _TAGS, _CANCEL = "\U0001f3f4", range(0xE0020, 0xE007F), "\U000e007f"
_FLAG_TAGS = 6
_HIDDEN = dict.fromkeys(
    [
        *(0x180E, 0x200B, 0xFEFF),
        *range(0x202A, 0x202F),
        *range(0x2060, 0x2070),
        *range(0xFFF9, 0xFFFC),
        *range(0xE0000, 0xE0080),
        *range(0xE0100, 0xE01F0),
    ]
)
"""Characters that text does not need: tags, direction marks, spaces without width. Joiners stay: emoji and some scripts need
them.
"""


def control_tokens(data: bytes) -> Iterator[Finding]:
    """Yields the control tokens by which chat templates mark speakers. In a text they only serve to deceive."""
    for start, end in spans(_CONTROL_TOKENS, data):
        yield Finding(start, end, "control token")


def strip_hidden(text: str) -> str:
    """Returns the text without characters that only machines read. Flags of regions keep their tags."""
    if text.isascii():
        return text
    first, *flagged = text.split(_FLAG)
    pieces = [first.translate(_HIDDEN)]
    for piece in flagged:
        end = piece.find(_CANCEL, 0, _FLAG_TAGS + 1) + 1
        tags = piece[:end] if all(ord(tag) in _TAGS for tag in piece[: max(end - 1, 0)]) else ""
        pieces += [_FLAG, tags, piece[len(tags) :].translate(_HIDDEN)]
    return "".join(pieces)


def has_phrase(text: str) -> bool:
    """Returns whether the text tells a model to ignore its instructions or to reveal them.

    Case, character width and invisible characters make no difference.
    """
    return _phrases().search(normalize(strip_hidden(text), fold=True)) is not None


@cache
def _phrases() -> Any:
    options = re2.Options()
    options.log_errors = False
    return re2.compile("|".join(f"(?:{phrase})" for phrase in _PHRASES), options)


class InjectionMarks:
    """Removes control tokens and hidden characters, and blocks known injection phrases.

    Control tokens of chat templates become `[control token]`; hidden characters are removed. A known phrase blocks, unless
    `phrases` is false: removing part of a sentence would not make it safe. Answers are checked for tool results only. This
    raises the bar for attackers, but does not stop all of them.

    Args:
        phrases: Blocks known phrases; False = only removes characters and tokens.
        places: Where to check: `message`, `answer`.
        name: The guardrail's name in results.
    """

    reach = 0

    def __init__(
        self, *, phrases: bool = True, places: Collection[Place] = ("message", "answer"), name: str = "injection-marks"
    ) -> None:
        self.name, self._phrases = name, phrases
        self._places = frozenset(checked_places(name, places))

    async def check(self, place: Place, content: Content, agent: str | None) -> GuardrailVerdict:
        """Blocks instructions to ignore instructions; removes hidden characters and replaces control tokens."""
        if place == "tool_call" or place not in self._places:
            return ALLOW
        findings: set[str] = set()

        def change(text: str) -> str:
            if self._phrases and has_phrase(text):
                findings.add("instructions to ignore instructions")
            visible = strip_hidden(text)
            clean = with_labels(visible, control_tokens)
            findings.update(["hidden characters"] if visible != text else [], ["control tokens"] if clean != visible else [])
            return clean

        left = [
            (await map_strings_async(Content(parts=(part,)), place, change)).parts[0]
            if place == "message" or isinstance(part, ToolResultPart)
            else part
            for part in content.parts
        ]
        if not findings:
            return ALLOW
        reason = f"It held {', '.join(sorted(findings))}."
        if "instructions to ignore instructions" in findings:
            return GuardrailVerdict("block", reason=reason)
        return GuardrailVerdict("rewrite", content.with_parts(left), reason)
