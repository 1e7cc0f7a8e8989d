"""Long texts, cut in the middle, so that what must be shown fits."""

from collections.abc import Callable, Sequence

from pydantic import JsonValue

from turnwise.facts.content import Part, TextPart, ToolCallPart, ToolResultPart
from turnwise.transcript.fences import inside
from turnwise.transcript.groups import Group, group_of
from turnwise.transcript.sizes import as_text, tokens_of_part

LENGTHS = (8_000, 2_000, 400, 80)
"""To how many characters a text is cut, if need be: what is longest first, then what is oldest."""


def fitted(groups: Sequence[Group], tokens: int) -> list[Group]:
    """The groups, oldest first, with texts cut until all of them together take no more than that many tokens, or nothing is
    left to cut. What is cut says so, and how much of it is missing.
    """
    fitted = list(groups)
    over = sum(group.tokens for group in groups) - tokens
    for length in LENGTHS:
        for index, group in enumerate(fitted):
            if over <= 0:
                return fitted
            fitted[index] = _shortened(group, length, over)
            over -= group.tokens - fitted[index].tokens
    return fitted


def cut(text: str, characters: int) -> str:
    """A text of about that many characters: its beginning, how much is missing, its end. Our marks around it stay."""
    opening, inner, closing = inside(text)
    missing = len(inner) - characters
    if missing <= 0:
        return text
    ahead = characters * 2 // 3
    middle = f"[… {missing:,} characters are left out here …]"
    shorter = f"{inner[:ahead]}{middle}{inner[len(inner) - (characters - ahead) :]}"
    return f"{opening}{shorter}{closing}" if len(shorter) < len(inner) else text


def _shortened(group: Group, length: int, over: int) -> Group:
    said, heard = list(group.said), list(group.heard)
    for parts in (said, heard):
        for index, part in enumerate(parts):
            if over > 0:
                parts[index] = _shortest(part, length, over)
                over -= tokens_of_part(part) - tokens_of_part(parts[index])
    return group_of(said, heard, group.events)


def _shortest(part: Part, length: int, over: int) -> Part:
    """The part cut to that length, or less if `over` tokens are gone before; it never grows."""
    size = tokens_of_part(part)
    shorter = _cut(part, length)
    if size - tokens_of_part(shorter) <= over:
        return shorter if tokens_of_part(shorter) < size else part
    least = length
    most = 3 * size
    while most - least > least // 10 + 10:
        middle = (least + most) // 2
        if size - tokens_of_part(_cut(part, middle)) < over:
            most = middle
        else:
            least = middle
    return _cut(part, least)


def _cut(part: Part, characters: int) -> Part:
    match part:
        case TextPart():
            return TextPart(text=cut(part.text, characters)) if len(part.text) > characters else part
        case ToolResultPart():
            result = cut(as_text(part.result), characters)
            changed = len(result) < len(as_text(part.result))
            return part.model_copy(update={"result": result}) if changed else part
        case ToolCallPart(raw=str(raw)):
            return part.model_copy(update={"raw": cut(raw, characters)})
        case ToolCallPart():
            arguments = {key: _cut_within(value, lambda text: cut(text, characters)) for key, value in part.arguments.items()}
            return part.model_copy(update={"arguments": arguments})
    return part


def _cut_within(value: JsonValue, shorten: Callable[[str], str]) -> JsonValue:
    if isinstance(value, str):
        return shorten(value)
    if isinstance(value, list):
        return [_cut_within(item, shorten) for item in value]
    if isinstance(value, dict):
        return {key: _cut_within(item, shorten) for key, item in value.items()}
    return value
