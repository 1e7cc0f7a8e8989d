"""Reads the LLM agents of a configuration file: entries of kind `llm`."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, JsonValue

from turnwise.agents.llm import LlmAgent
from turnwise.agents.llm.agent import HISTORY, OUTPUT_RETRIES, RESULT_CHARACTERS
from turnwise.agents.llm.design import OutputTool
from turnwise.config.document import kind_of
from turnwise.config.entries import AgentEntry
from turnwise.config.importing import resolve
from turnwise.config.model_entries import read_model
from turnwise.config.places import Document, Where
from turnwise.config.tool_entries import AgentReference, read_tools
from turnwise.config.validation import validated
from turnwise.facts.cards import AgentCard
from turnwise.facts.errors import AgentDefinitionError, ImportPathError, TurnwiseError
from turnwise.facts.fact import Fact
from turnwise.ports.agent import Agent
from turnwise.ports.tool import Tool, Toolset
from turnwise.tools.agent_tool import AgentTool
from turnwise.transcript.view import Budget


class _History(Fact):
    tokens: int = Field(default=HISTORY.tokens, ge=1)
    events: int = Field(default=HISTORY.events, ge=1)


class LlmOptions(Fact):
    output_key: str | None = None
    output_retries: int = Field(default=OUTPUT_RETRIES, ge=0)
    settings: dict[str, JsonValue] = {}
    max_steps: int | None = Field(default=None, ge=1)
    history: _History = _History()
    result_characters: int = Field(default=RESULT_CHARACTERS, ge=1)
    names_next: bool = False
    callers_tools: bool = True


class LlmRecipe:
    """A validated entry of kind `llm`. Builds the agent once its card and children are known."""

    purpose = "to be a tool"

    def __init__(self, where: Where, options: Mapping[str, Any], tools: Sequence[Tool | Toolset | AgentReference]) -> None:
        self._where, self._options, self._tools = where, options, tools

    @property
    def referenced_agents(self) -> Sequence[AgentReference]:
        """The other agents that it uses as tools."""
        return [tool for tool in self._tools if isinstance(tool, AgentReference)]

    def agent(self, card: AgentCard, children: Sequence[Agent], about: Mapping[str, str]) -> LlmAgent:
        """Builds the agent.

        Args:
            about: descriptions of the other agents, by name.

        Raises:
            AgentDefinitionError: for two tools of one name.
        """
        fields = card.model_dump(exclude={"name", "description", "kind"})
        tools = [_as_tool(tool, about) for tool in self._tools]
        return LlmAgent(card.name, description=card.description, children=children, tools=tools, **self._options, **fields)

    def try_out(self, document: Document, card: AgentCard) -> bool:
        """Whether the agent can be built. Returns False after it reported the reason."""
        try:
            self.agent(card, (), {})
        except TurnwiseError as error:
            document.report_error((*self._where, "tools"), error)
            return False
        return True


def read_llm(document: Document, entry: AgentEntry) -> LlmRecipe | None:
    """Reads an entry of kind `llm` and imports the modules it names. Returns None after it reported the problems.

    Opens no connection and calls no model.
    """
    before = len(document.problems)
    own, where = entry.own, entry.where
    plain = {key: value for key, value in own.items() if key in LlmOptions.model_fields}
    options = validated(document, where, LlmOptions, plain, AgentDefinitionError)
    made: dict[str, Any] = {"model": read_model(document, (*where, "model"), own.get("model"))}
    if "summary_model" in own:
        made["summary_model"] = read_model(document, (*where, "summary_model"), own["summary_model"])
    if "instructions" in own:
        made["instructions"] = _read_instructions(document, (*where, "instructions"), own["instructions"])
    if "output" in own:
        made["output_type"] = _read_output_type(document, (*where, "output"), own["output"], str(entry.card.get("name")))
    tools = read_tools(document, (*where, "tools"), own.get("tools", []))
    if options is None or tools is None or len(document.problems) > before:
        return None
    history = Budget(options.history.tokens, options.history.events)
    return LlmRecipe(where, {**options.model_dump(exclude={"history"}), "history": history, **made}, tools)


def _read_instructions(document: Document, where: Where, value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {"import"}:
        made = _import(document, (*where, "import"), value["import"])
        if made is not None and not callable(made):
            document.report(where, f"{value['import']} is no function of the context.", "Name one that gives the text.")
        return made
    fix = "Write text, below `instructions: |` if it has several lines, or `{import: module:function}`."
    document.report(where, f"'instructions' should be text, but is {kind_of(value)}.", fix, AgentDefinitionError)
    return None


def _read_output_type(document: Document, where: Where, value: Any, agent: str) -> Any:
    """The type of the agent's answers; reports an unsuitable one."""
    made = _import(document, where, value)
    if made is None:
        return None
    try:
        OutputTool(made, agent)
    except AgentDefinitionError as error:
        document.report_error(where, error)
    return made


def _import(document: Document, where: Where, path: Any) -> Any:
    try:
        if not isinstance(path, str):
            raise ImportPathError(f"Here an import path was expected, but this is {kind_of(path)}.", fix="Write module:name.")
        return resolve(path, document.folder)
    except TurnwiseError as error:
        document.report_error(where, error)
        return None


def _as_tool(tool: Tool | Toolset | AgentReference, about: Mapping[str, str]) -> Tool | Toolset:
    if not isinstance(tool, AgentReference):
        return tool
    return AgentTool(tool.name, description=about.get(tool.name) if tool.description is None else tool.description)
