"""BERT's WordPiece tokenizer: converts a text to token ids.

It produces the same ids as the `tokenizers` library for a BERT vocabulary. The usual library would also install the client of a
model hub. One difference is intended: special tokens such as `[SEP]` in a text are read as plain text.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import chain

from turnwise.matching.normalize import with_few_marks

_LONGEST_WORD = 100
_FIRST_CUT = 4096
_REMEMBERED_WORDS = 2**16
_REMEMBERED_CHARACTERS = 2**14

_ASCII_WORDS = re.compile(r"[A-Za-z0-9]+|[!-/:-@\[-`{-~]")
_ASCII_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_IDEOGRAPHS = re.compile(
    "[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b920-\U0002ceaf\U0002f800-\U0002fa1f]"
)
# The tokenizer follows Unicode 8: characters that became marks, format characters or punctuation later are letters.
_LATER = re.compile(
    "[\u061d\u07fd\u0890-\u08e2\u09fd-\u09fe\u0a76\u0afa-\u0aff\u0b55\u0c04-\u0c3c\u0c77\u0c84\u0d00\u0d3b-\u0d3c"
    "\u0d81\u0eba\u180f-\u1886\u1abf-\u1ace\u1b7d-\u1b7e\u1df6-\u1dfb\u2e43-\u2e5d\ua82c\ua8c5\ua8ff\ua9bd"
    "\U00010d24-\U00010f89\U00011070-\U00011074\U000110c2-\U000110cd\U000111c9\U000111cf\U0001123e\U0001133b"
    "\U00011438-\U0001145e\U00011660-\U0001166c\U000116b9\U0001182f-\U00011fff\U00012ff1-\U00013438"
    "\U00016e97-\U00016f4f\U00016fe2-\U00016fe4\U0001cf00-\U0001cf46\U0001e000-\U0001e2ef\U0001e944-\U0001e95f]"
)


class _ByCharacter(dict[int, str]):
    """A table for `str.translate` that computes entries on demand and caches a bounded number of them."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str:
        replaced = self._replace(chr(code))
        if len(self) < _REMEMBERED_CHARACTERS:
            self[code] = replaced
        return replaced


def _category(character: str) -> str:
    if character in "\u166d\u1734\U000111c9":  # their category has changed since
        return "Mn" if character == "\u1734" else "Po"
    return "Lo" if _LATER.match(character) else unicodedata.category(character)


def _is_control(character: str) -> bool:
    return character == "\ufffd" or (character not in "\t\n\r" and _category(character) in {"Cc", "Cf", "Co", "Cs"})


def _is_punctuation(character: str) -> bool:
    return _category(character)[0] == "P" or (character.isascii() and character in "$+<=>^`|~")


class WordPiece:
    """A WordPiece tokenizer. Safe to share between threads.

    `vocabulary` has one token a line; a token's id is its line number, from 0.
    """

    def __init__(
        self, vocabulary: str, *, lower: bool = True, strip_accents: bool = True, split_ideographs: bool = True
    ) -> None:
        """Raises KeyError when the vocabulary lacks a special token."""
        self._numbers = {piece: number for number, piece in enumerate(vocabulary.removesuffix("\n").split("\n"))}
        self._unknown, self._start, self._end = (self._numbers[token] for token in ("[UNK]", "[CLS]", "[SEP]"))
        self._lower, self._strip_accents, self._split_ideographs = lower, strip_accents, split_ideographs
        self._cleaned = _ByCharacter(self._clean)
        self._folded = _ByCharacter(self._fold)
        self._pieces = lru_cache(_REMEMBERED_WORDS)(self._split_word)

    def numbers(self, text: str, limit: int) -> list[int]:
        """Returns the ids: the start token, the text's tokens, the end token. Truncated to `limit` ids in total."""
        room = limit - 2
        return [self._start, *self._beginning(text, room), self._end]

    def _beginning(self, text: str, room: int) -> list[int]:
        """Tokenizes only as much of a long text as needed. A prefix's last word is ignored, since it may be cut."""
        cut = _FIRST_CUT
        while cut < len(text):
            found = self._all_pieces(self._words(text[:cut])[:-1])
            if len(found) >= room:
                return found[:room]
            cut *= 8
        return self._all_pieces(self._words(text))[:room]

    def _all_pieces(self, words: list[str]) -> list[int]:
        return list(chain.from_iterable(map(self._pieces, words)))

    def _words(self, text: str) -> list[str]:
        """Splits a text into words and punctuation, normalized as the model expects."""
        if text.isascii():
            text = _ASCII_CONTROLS.sub("", text)
            return _ASCII_WORDS.findall(text.lower() if self._lower else text)
        text = text.translate(self._cleaned)
        if self._strip_accents:
            text = unicodedata.normalize("NFD", with_few_marks(text))
        return text.translate(self._folded).split()

    def _clean(self, character: str) -> str:
        if _is_control(character):
            return ""
        if character.isspace():
            return " "
        return f" {character} " if self._split_ideographs and _IDEOGRAPHS.match(character) else character

    def _fold(self, character: str) -> str:
        if self._strip_accents and _category(character) == "Mn":
            return ""
        if self._lower:
            character = character.lower()
        return f" {character} " if len(character) == 1 and _is_punctuation(character) else character

    def _split_word(self, word: str) -> tuple[int, ...]:
        """Splits a word greedily into the longest known pieces.

        Returns one unknown token for the whole word when a part is unknown.
        """
        if len(word) > _LONGEST_WORD:
            return (self._unknown,)
        found: list[int] = []
        begin = 0
        while begin < len(word):
            for end in range(len(word), begin, -1):
                number = self._numbers.get(word[begin:end] if begin == 0 else f"##{word[begin:end]}")
                if number is not None:
                    break
            else:
                return (self._unknown,)
            found.append(number)
            begin = end
        return tuple(found)
