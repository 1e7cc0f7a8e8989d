"""Every kind of secret and of personal data is found, whatever stands around it, whole and in a stream (J1, C13)."""

import asyncio
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given, settings, strategies as st

from turnwise.facts.content import text_content
from turnwise.guardrails.personal_data import KINDS, RULES, PersonalData, find as find_personal
from turnwise.guardrails.replacing import compiled, with_labels
from turnwise.guardrails.secrets import _KEYS, Secrets, find as find_secrets
from turnwise.runner.guardrail_results import StreamStage

_MIXED, _HEX = "aB1" * 30, "0123456789abcdef"
KEYS = (
    "sk-abcdEFGH1234ijklMNOP5678",
    "sk_live_abcdEFGH1234ijkl",
    "whsec_abcdEFGH1234ijkl",
    "AKIAIOSFODNN7EXAMPLE",
    f"ghp_{_MIXED[:36]}",
    f"github_pat_{_MIXED[:30]}",
    f"glpat-{_MIXED[:20]}",
    "xoxb-1234567890-abc",
    "xapp-1-A12345678901",
    f"AIza{_MIXED[:35]}",
    f"ya29.{_MIXED[:30]}",
    f"GOCSPX-{_MIXED[:28]}",
    f"npm_{_MIXED[:36]}",
    f"pypi-{_MIXED[:40]}",
    f"hf_{_MIXED[:34]}",
    f"dckr_pat_{_MIXED[:27]}",
    f"SG.{_MIXED[:22]}.{_MIXED[:43]}",
    f"SK{_HEX * 2}",
    f"key-{_HEX * 2}",
    f"12345678:AA{_MIXED[:33]}",
    f"dop_v1_{_HEX * 4}",
    f"shpat_{_HEX * 2}",
    f"dapi{_HEX * 2}",
    f"AGE-SECRET-KEY-1{'Q2Z' * 20}",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqb2UifQ.c2lnbmF0dXJl",
)
BLOCK = f"-----BEGIN PRIVATE KEY-----\n{_MIXED[:64]}\n{_MIXED[:30]}\n-----END PRIVATE KEY-----"
SECRETS = {
    **{key: key for key in KEYS},
    BLOCK: _MIXED[:30],
    f"Bearer {_MIXED[:30]}": _MIXED[:30],
    "https://joe:hunter22@": "hunter22",
    "password=hunter2!Xy9": "hunter2!Xy9",
    "API key: hunter2!Xy9": "hunter2!Xy9",
}
"""A secret with what belongs to it, and what nobody may see of it."""
PERSONAL = {
    "e-mail": ("joe@example.com", "joe.doe+x@mail.example.co.uk"),
    "iban": ("DE89370400440532013000", "GB29 NWBK 6016 1331 9268 19"),
    "card": ("4111111111111111", "4111 1111 1111 1111", "3782 822463 10005"),
    "ssn": ("123-45-6789", "ssn 123456789"),
    "phone": ("+49 30 1234567", "(415) 555-2671", "415-555-2671", "030 12345678", "call me at 5551234"),
}


def _goes_on(char: str) -> bool:
    """Whether it reads as an ASCII letter, digit or sign: beside a key or a number, it may be a part of it."""
    if char.isascii() or unicodedata.decimal(char, None) is not None:
        return True
    return any(each.isascii() for each in unicodedata.normalize("NFKC", char))


ANY = st.characters(min_codepoint=0x80, exclude_categories=["Cs"]).filter(lambda char: not _goes_on(char))
LIKELY = st.sampled_from("漢字かナก์нДدஅ한éß👩🏴\u200b\u200d\ufe0f\u0301\u3099\u00ad\u3000、。（「…\u2028\n ")
AROUND = st.text(ANY | LIKELY, max_size=4)


def alternatives(pattern: bytes) -> list[bytes]:
    """What stands between the outermost bars of a pattern in one group."""
    inner, depth, cuts = pattern.removeprefix(b"(?:").removesuffix(b")"), 0, [-1]
    for at, byte in enumerate(inner):
        depth += (byte in b"([{") - (byte in b")]}")
        if byte == ord("|") and depth == 0:
            cuts.append(at)
    return [inner[before + 1 : after] for before, after in pairwise([*cuts, len(inner)])]


def test_every_kind_is_looked_for_here() -> None:
    """A rule that is added later needs an example above."""
    assert set(PERSONAL) == set(KINDS) == set(RULES)
    lacking = [one for one in alternatives(_KEYS) if not any(compiled(one).fullmatch(key.encode()) for key in KEYS)]
    assert lacking == []
    assert len(alternatives(_KEYS)) > 20


@pytest.mark.parametrize("secret", SECRETS)
@settings(deadline=None, max_examples=40)
@given(before=AROUND, after=AROUND)
@example(before="д", after="")
@example(before="密钥", after="有效")
@example(before="1\u200b漢", after="\u0301")
def test_a_secret_is_found_whatever_stands_around_it(secret: str, before: str, after: str) -> None:
    left = with_labels(f"{before}{secret}{after}", find_secrets)
    assert SECRETS[secret] not in left
    assert "[" in left


@pytest.mark.parametrize("datum", [datum for kind in PERSONAL.values() for datum in kind])
@settings(deadline=None, max_examples=40)
@given(before=AROUND, after=AROUND)
@example(before="д", after="")
@example(before="卡号，", after="有效")
@example(before="โทร", after="ครับ")
def test_a_personal_datum_is_found_whatever_stands_around_it(datum: str, before: str, after: str) -> None:
    left = with_labels(f"{before}{datum}{after}", lambda data: find_personal(data, RULES))
    assert datum not in left
    assert "[" in left


@settings(deadline=None, max_examples=150)
@given(
    hidden=st.sampled_from([*SECRETS, *(datum for kind in PERSONAL.values() for datum in kind)]),
    before=AROUND,
    after=AROUND,
    far=st.integers(0, 400),
    cuts=st.lists(st.integers(1, 60), min_size=1, max_size=20),
)
def test_a_stream_shows_none_of_it_wherever_it_is_cut(hidden: str, before: str, after: str, far: int, cuts: list[int]) -> None:
    """What is shown is the beginning of what is left of the whole."""
    guardrail = Secrets() if hidden in SECRETS else PersonalData()
    text = f"{'漢字 ' * (far // 3)}{before}{hidden}{after}{' かな' * 150}"

    async def check(said: str) -> str | None:
        verdict = await guardrail.check("answer", text_content(said), "a")
        return said if verdict.content is None else verdict.content.text

    async def streamed() -> tuple[str, str | None]:
        stage, shown, at, turn = StreamStage(check, guardrail.reach or 0), "", 0, 0
        while at < len(text):
            step = cuts[turn % len(cuts)]
            shown += await stage.feed(text[at : at + step]) or ""
            at, turn = at + step, turn + 1
        return shown, await check(text)

    shown, whole = asyncio.run(streamed())
    assert whole is not None
    assert whole.startswith(shown)
    assert len(shown) > far // 3
    assert SECRETS.get(hidden, hidden) not in shown
