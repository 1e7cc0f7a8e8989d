"""What the models of the help desk may call."""

from pathlib import Path
from typing import Any

import pytest
from helpdesk.agents.supervisor import supervisor
from helpdesk.shop import accounts as account_desk
from helpdesk.thinking import with_model

from turnwise import MessageContext, Runner, SqlSessionStore
from turnwise.facts.content import ToolResultPart
from turnwise.ports.agent import Agent
from turnwise.testing.models import ScriptedModel, calls

DANA, MARCO = "dana@example.com", "marco@example.com"


def agents(root: Agent) -> list[Agent]:
    return [root, *(agent for child in root.children for agent in agents(child))]


async def results(desk: str, *made: tuple[str, dict[str, Any]], **attributes: str) -> list[ToolResultPart]:
    """What one desk's calls gave, one after the other."""
    model = ScriptedModel(*(calls(*each) for each in made), "Done.")
    found = next(agent for agent in agents(with_model(supervisor, model)) if agent.card.name == desk)
    runner = Runner(found, store=SqlSessionStore("sqlite://"), policy="adk")
    context = MessageContext(attributes=dict(attributes))
    result = await (await runner.start("go", user="u", session="s", context=context)).result()
    await runner.close()
    return [part for event in result.events if event.content for part in event.content.tool_results]


def test_the_desks_keep_their_cards() -> None:
    plain, thinking = agents(supervisor), agents(with_model(supervisor, "openai:gpt-5-mini"))
    assert [agent.card.replace(kind="llm") for agent in plain] == [agent.card for agent in thinking]


@pytest.mark.parametrize(
    ("desk", "tool", "arguments", "words"),
    [
        ("orders", "find_order", {"order": "A-10412"}, "1Z40412"),
        ("orders", "orders_of", {"email": DANA}, "A-10420"),
        ("returns", "returns_of", {"order": "A-10398"}, "[]"),
        ("billing", "same_purchases", {"order": "A-10412"}, "[]"),
        ("gift_cards", "gift_card", {"number": "GC-1001-4471"}, "$"),
        ("account", "account", {"email": DANA}, "Dana"),
        ("products", "search_products", {"words": "a lamp for my desk", "at_most": 50}, "Luma Desk Lamp"),
        ("shopping", "gift_ideas", {"at_most": 30}, "$"),
        ("stores", "find_stores", {"place": "Boston"}, "340 Boylston St"),
        ("general", "frequent_answer", {"question": "What does shipping cost?"}, "$"),
    ],
)
async def test_what_a_desk_finds_out(shop_file: Path, desk: str, tool: str, arguments: dict[str, Any], words: str) -> None:
    (result,) = await results(desk, (tool, arguments))
    assert not result.failed, result
    assert words in str(result.result)


@pytest.mark.parametrize(
    ("desk", "tool", "arguments", "words"),
    [
        ("orders", "find_order", {"order": "A-99999"}, "There is no order A-99999."),
        ("orders", "find_order", {"order": "my order"}, "'order'"),
        (
            "returns",
            "announce_return",
            {"order": "A-10420", "line": 1, "reason": "other", "words": "x", "way": "post"},
            "not deliv",
        ),
        ("warranty", "claim_warranty", {"order": "A-10398", "line": 9, "fault": "dead"}, "lines."),
        ("billing", "save_invoice", {"order": "A-10420"}, "There is no invoice"),
        ("gift_cards", "gift_card", {"number": "GC-0000-0000"}, "There is no gift card"),
        ("account", "account", {"email": "nobody@example.com"}, "There is no account"),
        ("password_reset", "try_code", {"code": "123456"}, "That code is over."),
        ("shopping", "stock", {"product": "x", "place": "Boston"}, "There is no product 'x'."),
        ("stores", "find_stores", {"place": "Atlantis"}, "There is no store near 'Atlantis'."),
    ],
)
async def test_what_a_desk_cannot_do_is_told(
    shop_file: Path, desk: str, tool: str, arguments: dict[str, Any], words: str
) -> None:
    (result,) = await results(desk, (tool, arguments))
    assert result.failed
    assert words in str(result.result)


async def test_nobody_talks_a_desk_into_another_account(shop_file: Path) -> None:
    (result,) = await results("account", ("account", {"email": MARCO}), email=DANA)
    assert DANA in str(result.result)
    assert MARCO not in str(result.result)


async def test_a_code_opens_the_reset_that_this_conversation_began(shop_file: Path) -> None:
    sent, wrong = await results("password_reset", ("send_code", {"email": DANA}), ("try_code", {"code": "000000"}))
    assert "a code is on its way" in str(sent.result)
    assert (wrong.failed, str(wrong.result).startswith("That is not the code.")) == (True, True)
    assert [mail.subject for mail in account_desk.outbox(DANA)] == ["Your code"]


async def test_a_case_is_opened_once(shop_file: Path) -> None:
    topic = {"email": DANA, "topic": "a complaint"}
    first, second = await results("supervisor", ("open_case", topic), ("open_case", topic))
    assert first.result == second.result == "Case 1 is open; 0 are before it, about ten minutes each."
