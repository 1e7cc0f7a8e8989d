"""The pages for users of other systems: every name of ours in their tables exists, and every word of theirs is there."""

import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main

from turnwise import AgentContext, Runner, SqlSessionStore, agent
from turnwise.cli.app import app
from turnwise.config.schema import file_schema
from turnwise.facts.events import Actions
from turnwise.facts.gateway import GatewayConfig
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection
from turnwise.gateway.app import gateway
from turnwise.gateway.server import front_for
from turnwise.selection.diagram import STAGES
from turnwise.selection.named import NAMED

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "from").glob("*.md"))
TABLES = [page for page in PAGES if page.name != "index.md"]
FACES = (
    "turnwise", "turnwise.agents", "turnwise.client", "turnwise.content", "turnwise.errors", "turnwise.flows",
    "turnwise.gateway",
    "turnwise.guardrails", "turnwise.models", "turnwise.selection", "turnwise.stores", "turnwise.telemetry", "turnwise.testing",
    "turnwise.tools", "turnwise.transcript",
)  # fmt: skip
FIELDS = (Selection, Actions, MessageContext, RunConfig)
PARAMETERS = {
    "children",
    "output_type",
    "lead",
    "session",
    "depends_on",
    "result",
    "interactive",
    "side_by_side",
    "confirm",
    "order",
    "at_least",
    "turnwise.yaml",
}
"""Words of ours that are parameters of what the row is about; `test_parameters_exist` holds them."""
TOOLS = {"task_succeeded", "task_failed", "end_turn"}
"""Tools that an agent with a model gets in a flow; docs/flows.md has them."""
WORDS = (
    "AgentSelector", "IdentitySelector", "IterativeSelector", "ConversationalSelector", "execution_order", "AgentExecutor",
    "GraphBrainService", "AgentRouter", "PatternStore", "VectorStore", "AgentFactory", "MemoryService", "keyword_prefilter",
    "semantic_search", "route_message", "findAgentToRun", "parent map", "invocation context", "session service", "graph-chat",
    "direct_agent_id", "transfer_to_agent", "handoff", "checkpointer", "utterances", "turn strategy", "Orchestrator", "swarm",
    "GenericAgentTeam", "lead_agent", "agent_persona", "DynamicAgentOrchestrator", "completion_agents", "run_until",
)  # fmt: skip


def rows(page: Path) -> Iterator[tuple[str, str]]:
    """Yields their name and ours, of the table whose second column is `ours`."""
    table = re.search(r"^\|[^|\n]*\| ours \|[^\n]*\n\|[-|]+\n((?:\|.*\n)+)", page.read_text("utf-8"), re.MULTILINE)
    assert table is not None, page
    for line in table[1].splitlines():
        theirs, ours, _ = re.split(r"(?<!\\)\|", line)[1:4]
        yield theirs.strip(), ours.strip()


@cache
def keys() -> set[str]:
    """Every key that turnwise.yaml may have, at any depth."""
    found: set[str] = set()

    def collect(schema: Any) -> None:
        if isinstance(schema, dict):
            found.update(schema.get("properties", {}))
            for each in schema.values():
                collect(each)
        elif isinstance(schema, list):
            for each in schema:
                collect(each)

    collect(file_schema())
    return found


@cache
def operations() -> set[str]:
    @agent
    def desk() -> str:
        return ""

    document = gateway(front_for(Runner(desk, store=SqlSessionStore("sqlite://")), GatewayConfig())).openapi()
    return {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}


def is_command(words: list[str]) -> bool:
    command: Any = typer.main.get_command(app)
    for word in words:
        if word.startswith("-"):
            return True
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            return False
    return True


def is_public(name: str) -> bool:
    head, *rest = name.split(".")
    for face in map(importlib.import_module, FACES):
        thing: Any = getattr(face, head, None) if head in face.__all__ else None
        if thing is not None:
            return all(hasattr(thing, each) for each in rest)
    return False


def exists(name: str) -> bool:
    """Whether a name of ours in a table is one."""
    if name.startswith("turnwise "):
        return is_command(name.split()[1:])
    if re.match(r"[A-Z]+ /", name):
        return name in operations()
    if name.startswith("context."):
        return hasattr(AgentContext, name[8:]) or name[8:] in AgentContext.__annotations__
    if name.startswith("actions."):
        return name[8:] in Actions.model_fields
    is_field = any(name in model.model_fields for model in FIELDS)
    return is_field or name in {*STAGES, *NAMED, *keys(), *PARAMETERS, *TOOLS} or is_public(name)


@pytest.mark.parametrize("page", TABLES, ids=lambda page: page.stem)
def test_every_name_of_ours_exists(page: Path) -> None:
    names = [name for _, ours in rows(page) for name in re.findall(r"`([^`]+)`", ours)]
    assert len(names) >= 10
    assert [name for name in names if not exists(name)] == []


@pytest.mark.parametrize("page", TABLES, ids=lambda page: page.stem)
def test_every_row_has_both_names(page: Path) -> None:
    assert [theirs for theirs, ours in rows(page) if not theirs or not re.search(r"`[^`]+`", ours)] == []


@pytest.mark.parametrize(
    "name", ["turnwise dance", "GET /api/v1/dance", "context.dance", "actions.dance", "Dance", "Flow.dance", "dance"]
)
def test_a_name_that_does_not_exist_is_found(name: str) -> None:
    assert not exists(name)


@pytest.mark.parametrize("word", WORDS)
def test_the_words_of_other_systems_are_found(word: str) -> None:
    """The site's search indexes these pages, so each word leads to its row."""
    assert any(word in page.read_text("utf-8") for page in TABLES)


def test_the_index_lists_every_page() -> None:
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", (ROOT / "docs" / "from" / "index.md").read_text("utf-8")))
    assert linked == {page.name for page in TABLES}


def test_parameters_exist() -> None:
    """The words of `PARAMETERS` are keys of turnwise.yaml or parameters of the classes."""
    code = "\n".join(file.read_text("utf-8") for file in (ROOT / "src" / "turnwise").rglob("*.py"))
    assert [name for name in PARAMETERS if not re.search(rf"\b{re.escape(name)}\b", code)] == []
