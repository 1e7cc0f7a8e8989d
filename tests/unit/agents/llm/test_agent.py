from typing import Any

import pytest

from turnwise.agents.llm import LlmAgent
from turnwise.facts.errors import AgentDefinitionError, ConfigError
from turnwise.testing.models import ScriptedModel
from turnwise.tools.function import tool
from turnwise.transcript.view import Budget


def look() -> str:
    return "seen"


def test_its_card_says_what_it_is() -> None:
    child = LlmAgent("child", model=ScriptedModel())
    agent = LlmAgent("clerk", model=ScriptedModel(), description="Helps.", children=[child], patterns=[{"regex": "x"}])
    assert (agent.card.kind, agent.card.description, agent.card.patterns[0].regex) == ("llm", "Helps.", "x")
    assert (agent.children, repr(agent)) == ((child,), "LlmAgent('clerk')")


def test_a_pattern_may_be_a_text_as_of_any_agent() -> None:
    agent = LlmAgent("clerk", model=ScriptedModel(), patterns=["open", {"regex": "closed", "confidence": 0.9}])
    assert [(each.regex, each.confidence) for each in agent.card.patterns] == [("open", 0.8), ("closed", 0.9)]
    with pytest.raises(AgentDefinitionError, match="patterns"):
        LlmAgent("clerk", model=ScriptedModel(), patterns="open")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"resume": "sometimes"}, "'clerk': resume"),
        ({"max_steps": 0}, "'clerk': max_steps is 0. Use 1 or more."),
        ({"output_retries": -1}, "output_retries is -1. Use 0 or more."),
        ({"result_characters": 0}, "result_characters is 0"),
        ({"history": Budget(0, 1)}, "tokens is 0"),
        ({"tools": [3]}, "'clerk': a int is no tool"),
        ({"tools": [look, look]}, "two tools named 'look'"),
        ({"tools": [tool(name="final_answer")(look)]}, "'final_answer' is reserved for answers of a type"),
        ({"tools": [tool(name="transfer_to_agent")(look)]}, "reserved for hand-overs"),
        ({"tools": [tool(name="confirm")(look)]}, "reserved for questions to a person"),
        ({"output_type": object()}, "'clerk': output_type"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_made(options: Any, words: str) -> None:
    with pytest.raises(AgentDefinitionError, match=words):
        LlmAgent("clerk", model=ScriptedModel(), **options)


def test_a_model_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError):
        LlmAgent("clerk", model=3)  # type: ignore[arg-type]
