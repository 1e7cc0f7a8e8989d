"""No text costs a guardrail more than its length, and no script hides what it looks for (J1)."""

import asyncio
import threading
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from steps_play import steps

from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.guardrails.findings import Finding, labelled
from turnwise.guardrails.injection_rules import control_tokens, has_phrase, without_hidden
from turnwise.guardrails.personal_rules import RULES
from turnwise.guardrails.personal_rules import find as find_personal
from turnwise.guardrails.replacing import PLACES, Replacing
from turnwise.guardrails.secret_rules import find as find_secrets
from turnwise.selection.next_tag import take_next

NASTY = [
    "eyJ",
    "AKIA",
    "sk-",
    "gh",
    "xox",
    "password=",
    "Password is ",
    " bearer ",
    "-----BEGIN PRIVATE KEY-----\n ",
    "https://a:b@",
    "a@",
    "a@b.",
    "DE89",
    "GB29 NWBK ",
    "4111 ",
    "4111111111111111 ",
    "123-45-6789",
    "1-",
    "+1 ",
    "(0",
    "call me at ",
    "ssn ",
    "ignore all previous ",
    "<|im_start|>",
    "[key]",
    "<next>",
    "<next>@",
    "<",
    "`",
    "~~~\n",
    '"',
    "> ",
    "\u200b",
    "é",
    "漢",
    "ａ",
    "á",
]
READERS: dict[str, Callable[[str], object]] = {
    "secrets": lambda text: labelled(text, find_secrets),
    "personal data": lambda text: labelled(text, lambda data: find_personal(data, RULES)),
    "injection": lambda text: (has_phrase(text), labelled(without_hidden(text), control_tokens)),
    "next tag": take_next,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("before", ["", "x"])
def test_ten_times_the_text_is_ten_times_the_work(reader: str, before: str) -> None:
    """J1: the constants may differ, the growth may not."""
    for seed in NASTY:
        few, many = (steps(partial(READERS[reader], before + seed * (size // len(seed)))) for size in (1_000, 10_000))
        assert many <= 14 * few + 20_000, seed


AROUND = st.sampled_from("漢字かなカナก์нйاحदஅ한글éß，。、：；！？（）「」…\u200b\u3000\n ")
SECRETS = [
    "sk-abcdEFGH1234ijklMNOP5678",
    "ghp_" + "a1B2" * 9,
    "AKIAIOSFODNN7EXAMPLE",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqb2UifQ.c2ln",
]
PERSONAL = [
    "4111111111111111",
    "4111 1111 1111 1111",
    "DE89370400440532013000",
    "joe@example.com",
    "+49 30 1234567",
    "123-45-6789",
]


@settings(deadline=None, max_examples=300)
@given(before=st.text(AROUND, max_size=4), after=st.text(AROUND, max_size=4), secret=st.sampled_from(SECRETS + PERSONAL))
@example(before="д", after="", secret="sk-abcdEFGH1234ijklMNOP5678")
@example(before="卡号，", after="有效", secret="4111111111111111")
@example(before="โทร", after="ครับ", secret="+49 30 1234567")
def test_a_secret_is_found_whatever_stands_around_it(before: str, after: str, secret: str) -> None:
    """In any script, with or without spaces and punctuation."""
    finder = find_secrets if secret in SECRETS else lambda data: find_personal(data, RULES)
    left = labelled(f"{before}{secret}{after}", finder)
    assert secret not in left
    assert "[" in left


def test_what_stands_right_after_a_key_is_found_with_it() -> None:
    """Putting a label in its place must not need another look at the whole text for each."""
    assert labelled("AKIAIOSFODNN7EXAMPLE" * 3, find_secrets) == "[key]" * 3


@pytest.mark.parametrize(
    "part", [TextPart(text="x" * 100_000), DataPart(name="d", data=["x" * 100] * 1_000)], ids=["text", "data"]
)
def test_a_long_text_is_read_beside_the_loop(part: TextPart | DataPart) -> None:
    """J1: the event loop serves others meanwhile; here the rule does not end before one of them was served."""
    served = threading.Event()

    def find(data: bytes) -> list[Finding]:
        assert served.wait(30), "the loop was held"
        return []

    guardrail = Replacing("slow", "anything", find, reach=1, action="rewrite", places=PLACES)

    async def both() -> None:
        async def other() -> None:
            served.set()

        await asyncio.gather(guardrail.check("message", Content(role="user", parts=(part,)), None), other())

    asyncio.run(both())
