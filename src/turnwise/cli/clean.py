"""What others wrote, made safe for a terminal: no control sequences, no characters that reorder or hide text."""

import re

# Sequences that begin with ESC (or its one-byte forms): CSI; strings such as OSC and DCS up to their end; all others.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[PX^_\]]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
_UNFINISHED = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z|(?:\x1b[PX^_\]]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*\x1b?\Z|\x1b[ -/]*\Z"
)
_HELD_CHARACTERS = 4_096
_PASSES = 5

_CONTROLS = (*range(0x00, 0x09), *range(0x0B, 0x20), *range(0x7F, 0xA0))  # all but tab and line break
_BREAKS = (0x2028, 0x2029)
_DIRECTIONS = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_INVISIBLE = (0xFEFF, *range(0xE0000, 0xE0080))
_SURROGATES = range(0xD800, 0xE000)

_DROPPED: dict[int, str | None] = {
    **dict.fromkeys((*_CONTROLS, *_DIRECTIONS, *_INVISIBLE)),
    **dict.fromkeys(_BREAKS, "\n"),
    **dict.fromkeys(_SURROGATES, "\N{REPLACEMENT CHARACTER}"),
}
_ESCAPED_IN_JSON = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_BREAKS, *_DIRECTIONS, *_SURROGATES)}


def clean(text: str) -> str:
    """The text without terminal control sequences and other control characters; tabs and line breaks stay."""
    return _without_sequences(text).translate(_DROPPED)


def _without_sequences(text: str) -> str:
    for _ in range(_PASSES):  # what was around one may be one itself
        shorter = _SEQUENCE.sub("", text)
        if shorter == text:
            break
        text = shorter
    return text


def one_line(text: str, width: int | None = None) -> str:
    """The same on one line, space folded, cut to `width` characters if given."""
    line = " ".join(clean(text).split())
    return line if width is None or len(line) <= width else line[: max(width - 1, 0)].rstrip() + "…"


def whole(text: str) -> str:
    """Text from the command line or standard input with undecodable bytes replaced, so that it can be stored."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def safe_json(encoded: str) -> str:
    """JSON whose strings hold no raw control or reordering characters: the same value, written with escapes."""
    return encoded.translate(_ESCAPED_IN_JSON)


class Cleaner:
    """Cleans a text that comes in pieces: a sequence cut across pieces is held back until it is whole."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """The part of what has come so far that can be shown now."""
        text = _without_sequences(self._held + piece)
        unfinished = _UNFINISHED.search(text)
        self._held = ""
        if unfinished and len(text) - unfinished.start() <= _HELD_CHARACTERS:
            text, self._held = text[: unfinished.start()], text[unfinished.start() :]
        return text.translate(_DROPPED)

    def rest(self) -> str:
        """What was held back when no more comes."""
        text, self._held = self._held, ""
        return text.translate(_DROPPED)
