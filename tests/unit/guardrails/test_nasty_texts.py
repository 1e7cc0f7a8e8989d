"""No text costs a guardrail more than its length, and no script hides what it looks for (J1)."""

import asyncio
import threading

import pytest

from turnwise.facts.content import Content, DataPart, TextPart
from turnwise.guardrails.replacing import PLACES, Finding, Replacing, with_labels
from turnwise.guardrails.secrets import find as find_secrets


def test_what_stands_right_after_a_key_is_found_with_it() -> None:
    """Putting a label in its place must not need another look at the whole text for each."""
    assert with_labels("AKIAIOSFODNN7EXAMPLE" * 3, find_secrets) == "[key]" * 3


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
