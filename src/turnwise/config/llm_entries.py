"""Builds the LLM agents of a configuration file: entries of kind `llm`."""

from collections.abc import Mapping, Sequence
from typing import Any

from turnwise.agents.llm import LlmAgent
from turnwise.agents.llm.design import OutputTool
from turnwise.config.agent_section import ImportedInstructions, LlmSection
from turnwise.config.document import Document, Where
from turnwise.config.importing import resolve
from turnwise.config.model_entries import build_model
from turnwise.config.tool_entries import AgentReference, build_tools
from turnwise.facts.errors import ConfigError, TurnwiseError
from turnwise.facts.tree import AgentCard
from turnwise.ports.agent import Agent
from turnwise.ports.tool import Tool, Toolset
from turnwise.tools.agent_tool import AgentTool
from turnwise.transcript.view import Budget

_PLAIN_OPTIONS = {"output_key", "output_retries", "settings", "max_steps", "result_characters", "names_next", "callers_tools"}
"""Keys that are arguments of `LlmAgent`."""


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


def read_llm(document: Document, where: Where, section: LlmSection) -> LlmRecipe | None:
    """Prepares an LLM agent and imports the modules it names. Returns None after it reported the problems.

    Opens no connection and calls no model.
    """
    made: dict[str, Any] = {
        "model": build_model(document, (*where, "model"), section.model),
        "instructions": _instructions(document, (*where, "instructions"), section.instructions),
        "turn_instructions": _instructions(document, (*where, "turn_instructions"), section.turn_instructions),
        "history": Budget(section.history.tokens, section.history.events),
    }
    if section.summary_model is not None:
        made["summary_model"] = build_model(document, (*where, "summary_model"), section.summary_model)
    made["memory"] = section.memory if isinstance(section.memory, str) else section.memory.use()
    if section.output:
        made["output_type"] = _output_type(document, (*where, "output"), section.output, section.name)
    tools = build_tools(document, (*where, "tools"), section.tools)
    if document.has_problem(where):
        return None
    return LlmRecipe(where, {**section.model_dump(include=_PLAIN_OPTIONS), **made}, tools)


def _instructions(document: Document, where: Where, item: str | ImportedInstructions) -> Any:
    """Returns the instructions: a text or an imported function; None after reporting a problem."""
    if isinstance(item, str):
        return item
    try:
        made = resolve(item.path, document.folder)
        if not callable(made):
            raise ConfigError(f"{item.path} is no function of the context.", fix="Name one that gives the text.")
    except TurnwiseError as error:
        document.report_error((*where, "import"), error)
        return None
    return made


def _output_type(document: Document, where: Where, path: str, agent: str) -> Any:
    """The type of the agent's answers; reports an unsuitable one."""
    try:
        made = resolve(path, document.folder)
        OutputTool(made, agent)
    except TurnwiseError as error:
        document.report_error(where, error)
        return None
    return made


def _as_tool(tool: Tool | Toolset | AgentReference, about: Mapping[str, str]) -> Tool | Toolset:
    if not isinstance(tool, AgentReference):
        return tool
    return AgentTool(tool.name, description=about.get(tool.name) if tool.description is None else tool.description)
