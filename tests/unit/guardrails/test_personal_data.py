"""The guardrail for personal data (C13)."""

import pytest

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    text_content,
)
from turnwise.facts.errors import ConfigError
from turnwise.guardrails.personal_data import PersonalData
from turnwise.ports.guardrail import ALLOW

CARD = "4111111111111111"


async def test_labels_stand_in_its_place() -> None:
    verdict = await PersonalData().check("message", text_content(f"card {CARD}, bob@x.org", "user"), None)
    assert verdict.action == "rewrite"
    assert verdict.content == text_content("card [card], [e-mail]", "user")
    assert verdict.reason == "It held personal data: card, e-mail."


async def test_it_can_block_instead() -> None:
    verdict = await PersonalData(action="block").check("answer", text_content(CARD), "a")
    assert (verdict.action, verdict.content, verdict.reason) == ("block", None, "It held personal data: card.")


async def test_arguments_are_looked_through_however_deep() -> None:
    """C13: keys, numbers, and what is no JSON too."""
    call = ToolCallPart(
        call_id="1", tool="pay", arguments={"to": [{"bob@x.org": CARD}, 4111111111111111, 3, None, True]}, raw=f"{{{CARD}"
    )
    verdict = await PersonalData().check("tool_call", Content(parts=(call,)), "a")
    assert verdict.content is not None
    (left,) = verdict.content.tool_calls
    assert left.arguments == {"to": [{"[e-mail]": "[card]"}, "[card]", 3, None, True]}
    assert left.raw == "{[card]"


async def test_all_that_is_said_is_looked_through_but_calls() -> None:
    """C13: a call is judged in its own place."""
    call = ToolCallPart(call_id="1", tool="pay", arguments={"card": CARD})
    parts = (
        ThinkingPart(text=CARD),
        DataPart(data={"card": [CARD]}),
        ToolResultPart(call_id="0", result=CARD),
        BlobPart(data=b"1", name=f"{CARD} .pdf"),
        ArtifactPart(name="a", title=f"{CARD} .pdf"),
        call,
    )
    verdict = await PersonalData().check("answer", Content(parts=parts), "a")
    assert verdict.content is not None
    assert verdict.content.parts[-1] == call
    assert CARD not in verdict.content.with_parts(verdict.content.parts[:-1]).model_dump_json()


async def test_places_and_kinds_are_chosen() -> None:
    guardrail = PersonalData(kinds=["card"], places=["message"], name="cards")
    assert await guardrail.check("answer", text_content(CARD), "a") == ALLOW
    assert await guardrail.check("message", text_content("bob@x.org"), None) == ALLOW
    assert (guardrail.name, guardrail.reach) == ("cards", 0)
    assert PersonalData(kinds=["card"]).reach == 26


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="does not know 'shoe'"):
        PersonalData(kinds=["shoe"])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="cannot 'sing'"):
        PersonalData(action="sing")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="cannot stand at 'door'"):
        PersonalData(places=["door"])  # type: ignore[list-item]


async def test_other_parts_stay_as_they_are() -> None:
    content = Content(parts=(TextPart(text="hello"), DataPart(data=None), BlobPart(data=b"1")))
    assert await PersonalData().check("answer", content, "a") == ALLOW
