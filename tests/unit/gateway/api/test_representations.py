"""What the API shows of agents."""

import pytest

from turnwise.facts.callers import Caller
from turnwise.facts.tree import AgentCard, AgentTree, LearnedExample
from turnwise.gateway.api.representations import agent_details
from turnwise.gateway.redaction import Redactor
from turnwise.gateway.services.agents import VisibleAgent


@pytest.mark.parametrize("caller", [Caller(id="u", user="ann"), Caller(id="o", role="operator")])
def test_an_agent_is_shown_without_what_it_learned(caller: Caller) -> None:
    """H4: a learned example is what another user wrote."""
    card = AgentCard(name="desk", examples=("open",), learned=(LearnedExample(text="a secret", user="ada"),))
    shown = agent_details(VisibleAgent(card, ()), Redactor(caller, AgentTree([card])))
    assert "secret" not in shown.model_dump_json()
