"""Texts that cost readers most, and everything that reads a user's or a model's text."""

from collections.abc import Callable
from functools import cache

from turnwise.facts.content import Content, TextPart
from turnwise.flows.strategies import _mentioned
from turnwise.flows.tasks.result_types import unfenced
from turnwise.guardrails.injection import control_tokens, has_phrase, strip_hidden
from turnwise.guardrails.personal_data import RULES, find as find_personal
from turnwise.guardrails.rules import normalized, with_labels
from turnwise.guardrails.secrets import find as find_secrets
from turnwise.guardrails.topics import passages
from turnwise.matching.encoder.onnx_encoder import SHIPPED, VOCABULARY_FILE
from turnwise.matching.encoder.wordpiece import WordPiece
from turnwise.matching.lexical import Lexicon
from turnwise.matching.normalize import legible, normalize
from turnwise.matching.patterns import PatternIndex
from turnwise.matching.sentences import segments
from turnwise.matching.smalltalk import wording as small_talk
from turnwise.matching.spelling import SpellingCorrector
from turnwise.matching.text_features import text_features
from turnwise.selection.clarify import Choice, read_answer
from turnwise.selection.contextual.wording import read_message, read_reply, split_requests
from turnwise.selection.conversational import NextTagFilter, comparable_name, take_next
from turnwise.telemetry.logs import redacted
from turnwise.transcript.fences import attributed, escape_fences, escape_fences_in, fenced
from turnwise.transcript.trimming import cut

UNITS = (
    # the beginnings and the middles of secrets and personal data
    "eyJ",
    "eyJa.",
    "-eyJ",
    "AKIA",
    "AKIAIOSFODNN7EXAMPLE",
    "sk-",
    "gh",
    "xox",
    "SG.",
    "password=",
    "Password is ",
    "password=aB3$",
    "token: ",
    " bearer ",
    "basic ",
    "-----BEGIN PRIVATE KEY-----\n ",
    "-----BEGIN ",
    "Version: a\n",
    "https://a:b@",
    "https://a:",
    "://",
    "a@",
    "a@b.",
    "a.",
    "www.",
    "DE89",
    "GB29 NWBK ",
    "4111 ",
    "4111111111111111 ",
    "4",
    "123-45-6789",
    "1-",
    "1 ",
    "1.",
    "+1 ",
    "(0",
    "call me at ",
    "ssn ",
    # injections, control tokens, marks of ours
    "ignore all previous ",
    "ignore all all ",
    "reveal system hidden ",
    "put me through me ",
    "<|im_start|>",
    "<|",
    "[key]",
    "<next>",
    "<next>@",
    "</next>",
    "<",
    "< ",
    "<\\",
    "<said ",
    "<said>",
    '<said by="a">',
    "</said>",
    "＜/",
    "&lt;",
    # marks, quotes, code, spaces
    "`",
    "``` \n",
    "```\n",
    "~~~\n",
    '"',
    '" ',
    "> ",
    "- ",
    "'",
    "a'",
    ".",
    ". ",
    "? ",
    "!,",
    ",",
    ", ",
    " ,",
    ";",
    " - ",
    "-",
    "_",
    "#",
    "/",
    "$",
    "@",
    "=",
    ":",
    " ",
    "\n",
    " \n",
    "\t",
    "\r\n",
    "\x00",
    "\x85",
    "\u3000",
    # words
    "a",
    "aB",
    "a b ",
    "and ",
    " and",
    "then and ",
    "no thing ",
    "none, ",
    "transfr ",
    "Transfr. ",
    "unbeleivable ",
    "one two ",
    "not ",
    "12 street ",
    "10:30 ",
    # other scripts, marks, invisible characters
    "\u200b",
    "<\u200b",
    "\u00ad-",
    "\ufe0f",
    "é",
    "á",
    "漢",
    "ａ",
    "한",
    "อ",
    "ﷺ",
    "ß",
    "İ",
    "𝟙",
    "🏴",
    "🏴\U000e0067",
    "\U000e0067",
    "👩\u200d",
    "\u0301",
    "\u0315\u0300",
    "\ud800",
)
"""What a text is made of, again and again."""
FEW, MANY = 10_000, 260_000
"""The sizes that are compared, in characters."""


def text_of(unit: str, size: int, before: str = "", after: str = "") -> str:
    """A text of about that many characters, all of which repeat the unit."""
    return before + unit * (size // len(unit)) + after


@cache
def _wordpiece() -> WordPiece:
    return WordPiece((SHIPPED / VOCABULARY_FILE).read_text("utf-8"))


@cache
def _spelling() -> SpellingCorrector:
    return SpellingCorrector(["transfer the money to my account", "reset the password"])


@cache
def _lexicon() -> Lexicon:
    return Lexicon.of(["transfer the money to my account", "reset the password"])


@cache
def _patterns() -> PatternIndex:
    written = (r"\btransfer .* to\b", r"(a+)+b", r"order \d+", r"(x|xx)*y$", r"\bpassword\b")
    return PatternIndex((f"agent{place}", pattern, 0.9) for place, pattern in enumerate(written))


def _cut_in_pieces(text: str) -> list[str]:
    tags = NextTagFilter()
    return [*(tags.feed(text[at : at + 100]) for at in range(0, len(text), 100)), tags.finish()]


def _content(text: str) -> Content:
    return Content(role="user", parts=(TextPart(text=text),))


_CHOICES = (Choice("billing", "Billing desk", ""), Choice("password_reset", "Password reset", ""))

READERS: dict[str, Callable[[str], object]] = {
    "guardrails: as bytes": normalized,
    "guardrails: secrets": lambda text: with_labels(text, find_secrets),
    "guardrails: personal data": lambda text: with_labels(text, lambda data: find_personal(data, RULES)),
    "guardrails: injection": lambda text: (has_phrase(text), with_labels(strip_hidden(text), control_tokens)),
    "guardrails: topics, passages": lambda text: list(passages(text)),
    "matching: one form": normalize,
    "matching: one form, folded": lambda text: normalize(text, fold=True),
    "matching: legible": legible,
    "matching: text features": text_features,
    "matching: words and runs": lambda text: _lexicon().rows([text]),
    "matching: spelling": lambda text: _spelling().corrected(text),
    "matching: parts": segments,
    "matching: small talk": small_talk,
    "matching: patterns": lambda text: _patterns().match(text),
    "matching: word pieces": lambda text: _wordpiece().numbers(text, 256),
    "selection: <next> tag": take_next,
    "selection: <next> tag in pieces": _cut_in_pieces,
    "selection: name in a tag": comparable_name,
    "selection: names mentioned": lambda text: _mentioned(text, ["billing", "a", "a a", "-", "password reset"]),
    "selection: two requests": split_requests,
    "selection: wording": read_message.__wrapped__,
    "selection: wording of a reply": read_reply.__wrapped__,
    "selection: answer to a choice": lambda text: read_answer(text, _CHOICES),
    "transcript: marks": escape_fences,
    "transcript: marks in values": lambda text: escape_fences_in({text[:100]: [text]}),
    "transcript: attribution": lambda text: fenced(attributed(text[:100], text)),
    "transcript: inside of marks": lambda text: fenced("<said " + text),
    "transcript: cut": lambda text: cut(attributed("agent", text), 400),
    "flows: fences": unfenced,
    "telemetry: secrets in logs": redacted,
}
"""Each with what it is given: one text."""
