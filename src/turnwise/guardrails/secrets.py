"""Detects secrets: keys of known providers, private keys, tokens, passwords."""

from collections import Counter
from collections.abc import Collection, Iterator
from math import log2

from turnwise.guardrails.replacing import PLACES, Action, Finding, Replacing, compiled, spans
from turnwise.ports.guardrail import Place

REACH = 160
"""How many characters of context a match needs."""

_WORD = rb"[A-Za-z0-9_-]"
_KEYS = (
    rb"(?:"
    rb"[sr]k-" + _WORD + rb"{20,}"
    rb"|(?:[srp]k_(?:live|test)|whsec|rk_live)_[A-Za-z0-9]{16,}"
    rb"|(?:AKIA|ASIA|AGPA|AIDA|AROA|ABIA|ACCA)[A-Z0-9]{16}"
    rb"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}|gl(?:pat|ptt|dt|rt|soat)-" + _WORD + rb"{20,}"
    rb"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}"
    rb"|AIza" + _WORD + rb"{35}|ya29\.[A-Za-z0-9._-]{20,}|GOCSPX-" + _WORD + rb"{20,}"
    rb"|npm_[A-Za-z0-9]{36}|pypi-" + _WORD + rb"{30,}|hf_[A-Za-z0-9]{30,}|dckr_pat_" + _WORD + rb"{20,}"
    rb"|SG\." + _WORD + rb"{16,40}\." + _WORD + rb"{16,}|SK[0-9a-f]{32}|key-[0-9a-f]{32}"
    rb"|[0-9]{8,10}:AA" + _WORD + rb"{33}|do[opr]_v1_[a-f0-9]{64}|shp(?:at|ss|ca|pa)_[a-fA-F0-9]{32}"
    rb"|dapi[a-f0-9]{32}|AGE-SECRET-KEY-1[A-Z0-9]{50,}|eyJ" + _WORD + rb"{17,}(?:\.[A-Za-z0-9_-]+){0,2}"
    rb")"
)
_KEY_AFTER = rb"[^A-Za-z0-9](" + _KEYS + rb")"
_TOKEN_PREFIX = rb"eyJ"
_BEGIN = rb"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
_SPACE = rb"(?:[\s\"',+>]|\\[nrt])*"
_PRIVATE_KEY = (
    _BEGIN
    + rb"(?:" + _SPACE + rb"(?:(?:Proc-Type|DEK-Info|Version|Comment): [^\n\\]{0,100}|[A-Za-z0-9+/=]{16,}))*"
    + rb"(?:" + _SPACE + rb"[A-Za-z0-9+/=]{0,64}" + _SPACE + rb"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----)?"
)  # fmt: skip
_BEARER = rb"(?i)\bbearer[ \t]{1,4}([A-Za-z0-9._~+/=-]{16,})"
_ADDRESS = rb"(?i)\b[a-z][a-z0-9+.-]{1,15}://[^\s:/@]{0,40}:([^\s@/]{1,64})@"
_ASSIGNMENT = (
    rb"(?i)(?:password|passwd|passphrase|pwd|secret|token|api[ _-]?key|access[ _-]?key|private[ _-]?key|account[ _-]?key"
    rb"|auth[ _-]?key|credentials?)[\"']?(?:[ \t]{0,3}(?:=>|:=|=|:)| is)[ \t]{0,3}[\"']?([^\s\"'`,;<>(){}\x00]{8,})"
)
_LABELS = (b"[key]", b"[token]", b"[secret]", b"[private key]")
_PLACEHOLDER = rb"(?i)^(?:[$%*]|https?:|your[_-]|example|x{4}|\.{3}|(?:null|none|true|false|undefined)$)"
_INSPECTED = 40
_MIN_BITS = 2.75
_CHARACTER_KINDS = (rb"[A-Za-z]", rb"[0-9]", rb"[a-z0-9][A-Z]", rb"[^A-Za-z0-9._/:-]")


def find(data: bytes) -> Iterator[Finding]:
    """Yields the findings; no two overlap. The first rule wins when two match the same text."""
    left = bytearray(data)
    for kind, found in (
        ("private key", _private_keys),
        ("secret", _assigned),
        ("key", _keys),
        ("token", _bearers),
        ("secret", _in_addresses),
    ):
        for start, end in list(found(bytes(left))):
            # Tokens are also matched by the key rule, through their prefix.
            label = "token" if kind == "key" and data.startswith(_TOKEN_PREFIX, start) else kind
            left[start:end] = bytes(end - start)
            yield Finding(start, end, label)


def _private_keys(data: bytes) -> Iterator[tuple[int, int]]:
    return spans(_PRIVATE_KEY, data) if b"-----BEGIN " in data else iter(())


def _keys(data: bytes) -> Iterator[tuple[int, int]]:
    """Yields the places of keys of known providers."""
    # The character before a key is part of the pattern: checking it after each match would take quadratic time in a text full
    # of prefixes. A key may also begin at the end of another one, where a label will be.
    at = 0
    while match := compiled(_KEYS).match(data, at) or compiled(_KEY_AFTER).search(data, at):
        start, end = match.span(match.re.groups)
        yield start, end
        at = end


def _bearers(data: bytes) -> Iterator[tuple[int, int]]:
    for start, end in spans(_BEARER, data, 1):
        head = data[start : start + _INSPECTED]
        if compiled(rb"[0-9]").search(head) and compiled(rb"[A-Za-z]").search(head):
            yield start, end


def _in_addresses(data: bytes) -> Iterator[tuple[int, int]]:
    for start, end in spans(_ADDRESS, data, 1):
        if not data.startswith(_LABELS, start):
            yield start, end


def _assigned(data: bytes) -> Iterator[tuple[int, int]]:
    for start, end in spans(_ASSIGNMENT, data, 1):
        if not data.startswith(_LABELS, start) and looks_random(data[start:end]):
            yield start, end


def looks_random(value: bytes) -> bool:
    """Returns whether a value looks more like a secret than like a word or a placeholder, by its first 40 characters."""
    head = value[:_INSPECTED]
    if compiled(_PLACEHOLDER).search(head):
        return False
    signs = sum(compiled(sign).search(head.rstrip(b".!?")) is not None for sign in _CHARACTER_KINDS)
    return signs >= 2 and _bits(head) >= _MIN_BITS


def _bits(value: bytes) -> float:
    """Returns the entropy of a value in bits per character."""
    return -sum(count / len(value) * log2(count / len(value)) for count in Counter(value).values())


class Secrets(Replacing):
    """Replaces secrets with `[key]`, `[private key]`, `[token]` and `[secret]`, or blocks content that holds them.

    Keys and tokens are recognized by the formats of their providers. A value that is assigned to a name such as `password` or
    `api_key` counts if it looks random.

    Args:
        action: `rewrite` or `block`.
        places: Where to check.
        name: The guardrail's name in results.
    """

    def __init__(self, *, action: Action = "rewrite", places: Collection[Place] = PLACES, name: str = "secrets") -> None:
        super().__init__(name, "secrets", find, reach=REACH, action=action, places=places)
