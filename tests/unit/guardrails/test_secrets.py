"""The guardrail for secrets (C13)."""

from turnwise.facts.content import Content, ToolCallPart, text_content
from turnwise.guardrails.secrets import Secrets


async def test_what_was_taken_out_is_told_by_its_kind_only() -> None:
    call = ToolCallPart(call_id="1", tool="login", arguments={"header": "Bearer abc123DEF456ghi789"})
    verdict = await Secrets().check("tool_call", Content(parts=(call,)), "a")
    assert verdict.content is not None
    assert verdict.content.tool_calls[0].arguments == {"header": "Bearer [token]"}
    assert verdict.reason == "It held secrets: token."


async def test_it_can_block_instead() -> None:
    verdict = await Secrets(action="block").check("message", text_content("password=hunter2hunter"), None)
    assert (verdict.action, verdict.reason) == ("block", "It held secrets: secret.")
