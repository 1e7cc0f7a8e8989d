"""The agents with a model behind them; what they may do is look into the archive."""

from collections.abc import Sequence
from typing import Any

from newsroom import archive
from turnwise.agents import LlmAgent
from turnwise.models import Spec
from turnwise.tools import tool

_HOUSE = "You work for a city's newspaper. Say only what the archive or your colleagues' results say; never make up a fact."


@tool
def search_archive(query: str) -> list[dict[str, str]]:
    """Finds sentences in the archive.

    Args:
        query: What they have to be about, in a few words.
    """
    found = archive.search(query)
    return [{"text": each.text, "source": each.source, "day": each.day} for each in found]


def agents(model: Spec) -> Sequence[LlmAgent]:
    """Researcher, writer, fact checker and editor, with that model behind them."""
    return (
        _agent("researcher", model, "Finds what the archive says about a subject.", tools=(search_archive,)),
        _agent("writer", model, "Writes articles from notes."),
        _agent("fact_checker", model, "Checks every sentence of a draft against the notes.", tools=(search_archive,)),
        _agent("editor", model, "Finds headlines, and makes drafts fit to print."),
    )


def _agent(name: str, model: Spec, description: str, tools: Sequence[Any] = ()) -> LlmAgent:
    return LlmAgent(name, model=model, description=description, instructions=f"{_HOUSE}\n{description}", tools=tools)
