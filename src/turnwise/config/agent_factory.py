"""Makes agents from definitions, of what the section `definitions` of a configuration file registers only.

A definition imports nothing and runs nothing (F2).
"""

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from pydantic import JsonValue

from turnwise.access.address_guard import REMOTE_AGENT, AddressGuard, parse_target
from turnwise.agents.adapters.bounded_client import bounded_client
from turnwise.agents.function import FunctionAgent
from turnwise.agents.llm import LlmAgent
from turnwise.agents.replies import ReplyAgent
from turnwise.config.app_file import Reference
from turnwise.config.document import Document, Where, expand_variables
from turnwise.config.importing import resolve
from turnwise.config.part_entries import AgentReference, build_model, build_tool, built_in_tools
from turnwise.config.policies import ModelSpecs
from turnwise.config.settings import Settings
from turnwise.facts.errors import AgentDefinitionError, ConfigError, TurnwiseError
from turnwise.facts.hints import did_you_mean
from turnwise.facts.tree import AgentCard
from turnwise.ports.agent import Agent
from turnwise.ports.definitions import Definition, MadeByFactory, MadeByModel, MadeOfTemplates, MadeRemotely
from turnwise.ports.model import Model
from turnwise.ports.tool import Tool, Toolset
from turnwise.tools.built_in import AgentTool

MOST_BYTES = 64 * 1024 * 1024
"""The most bytes of one response of a remote agent."""


class Registered(NamedTuple):
    """The parts that definitions may name."""

    makers: Mapping[str, Callable[..., Any]] = {}
    """Factories of agents, by name. Each takes the options of a definition and returns an agent, or a function that answers."""
    tools: Mapping[str, Tool | Toolset] = {}
    models: Mapping[str, Model] = {}
    environment: Mapping[str, str] = {}
    """The environment variables that the configuration releases, with their values."""
    guard: AddressGuard = AddressGuard(field=REMOTE_AGENT)
    """Allows the addresses of remote agents."""


class Instance:
    """An agent that a definition made, shared by all sets of agents that have its version.

    Attributes:
        agent: The agent. Its own children do not count.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent


class AgentFactory:
    """Makes the agents of definitions. An agent is made once for each name and version, while any set has it.

    Args:
        registered: The parts that definitions may name.
    """

    def __init__(self, registered: Registered) -> None:
        self.registered = registered
        self._instances: WeakValueDictionary[tuple[str, int], Instance] = WeakValueDictionary()

    def instance(self, definition: Definition) -> Instance:
        """Returns the agent that a definition makes. A version that is not stored yet is made anew.

        Raises:
            TurnwiseError: It cannot be made; the error names the agent and the cause.
        """
        at = (definition.name, definition.version)
        known = self._instances.get(at) if definition.version else None
        if known is None:
            known = Instance(self._make(definition))
            if definition.version:
                self._instances[at] = known
        return known

    async def check_address(self, definition: Definition) -> None:
        """Raises RequestInvalid if the definition names a remote agent at an address that is not public."""
        if isinstance(definition.made_by, MadeRemotely):
            await self.registered.guard.check(self._expanded(definition.name, definition.made_by.remote))

    def _make(self, definition: Definition) -> Agent:
        """Makes the agent in the way that its definition names. Raises AgentDefinitionError."""
        made, name = definition.made_by, definition.name
        card = definition.card_of()
        if isinstance(made, MadeByFactory):
            return self._by_factory(name, made, card)
        if isinstance(made, MadeByModel):
            return self._by_model(name, made, card)
        if isinstance(made, MadeOfTemplates):
            return ReplyAgent(name, made, description=card.description)
        if isinstance(made, MadeRemotely):
            return self._remote(name, made, card)
        raise AgentDefinitionError(f"The definition {name!r} does not say how its agent is made.", fix="Add `made_by`.")

    def _by_factory(self, name: str, made: MadeByFactory, card: AgentCard) -> Agent:
        """Calls the registered maker with the options. Raises AgentDefinitionError if it gives no agent."""
        maker = _registered(
            self.registered.makers, made.use, f"The agent {name!r} is made by {{}}, which is not registered.", "makers"
        )
        options = {key: self._expanded_value(name, value) for key, value in made.options.items()}
        try:
            agent = maker(**options)
        except TurnwiseError:
            raise
        except Exception as error:
            given = ", ".join(options) or "none"
            raise AgentDefinitionError(
                f"The maker {made.use!r} of the agent {name!r} raised {type(error).__name__}: {error}.",
                fix=f"Options given: {given}.",
            ) from error
        if isinstance(getattr(agent, "card", None), AgentCard) and callable(getattr(agent, "run", None)):
            made_agent: Agent = agent
            return made_agent
        if inspect.isclass(agent) or not callable(agent):
            raise AgentDefinitionError(
                f"The maker {made.use!r} of the agent {name!r} gives a {type(agent).__name__}.",
                fix="Return an agent, or a function that answers.",
            )
        return FunctionAgent(agent, AgentCard(name=name, description=card.description))

    def _by_model(self, name: str, made: MadeByModel, card: AgentCard) -> Agent:
        """Makes an LLM agent with registered model and tools."""
        model = _registered(
            self.registered.models, made.model, f"The agent {name!r} uses the model {{}}, which is not registered.", "models"
        )
        unknown = f"The agent {name!r} uses the tool {{}}, which is not registered."
        tools = [_registered(self.registered.tools, tool, unknown, "tools") for tool in made.tools]
        return LlmAgent(name, model=model, description=card.description, instructions=made.instructions, tools=tools)

    def _remote(self, name: str, made: MadeRemotely, card: AgentCard) -> Agent:
        """Makes an adapter for a remote agent. The guard checks its addresses."""
        from turnwise.agents.adapters.a2a import A2aAgent

        url = self._expanded(name, made.remote)
        parse_target(url, self.registered.guard.field)
        headers = {key: self._expanded(name, value) for key, value in made.headers.items()}
        connect = lambda: bounded_client(MOST_BYTES, self.registered.guard)  # noqa: E731 (one for each event loop)
        return A2aAgent(url, name=name, description=card.description, headers=headers, connect=connect)

    def _expanded_value(self, name: str, value: JsonValue) -> JsonValue:
        """Returns the JSON value with environment variables expanded in its texts."""
        if isinstance(value, str):
            return self._expanded(name, value)
        if isinstance(value, list):
            return [self._expanded_value(name, each) for each in value]
        if isinstance(value, dict):
            return {key: self._expanded_value(name, each) for key, each in value.items()}
        return value

    def _expanded(self, name: str, text: str) -> str:
        """Returns the text with environment variables expanded. Raises AgentDefinitionError for an unreleased one."""
        found = expand_variables(text, self.registered.environment)
        if found.malformed:
            raise AgentDefinitionError(f"The agent {name!r}: {found.malformed[0]!r} is not a reference to a variable.")
        if found.missing:
            raise AgentDefinitionError(
                f"The agent {name!r} uses the environment variable {found.missing[0]}, which is not released, or not set.",
                fix="Release it under `definitions: environment:` in turnwise.yaml, and set it.",
            )
        return found.text


def _registered(names: Mapping[str, Any], name: str, problem: str, key: str) -> Any:
    if name not in names:
        advice = did_you_mean(name, names) if names else ""
        fix = f"{advice} Register it under `definitions: {key}:` in turnwise.yaml.".lstrip()
        raise AgentDefinitionError(problem.format(repr(name)), fix=fix)
    return names[name]


def read_registered(settings: Settings) -> Registered:
    """Builds the makers, tools and models. Reports and omits those with problems. Opens no connection."""
    document, section = settings.document, settings.file.definitions
    makers = {name: _read_maker(document, ("definitions", "makers", name), each) for name, each in section.makers.items()}
    tools = {name: _read_tool(document, ("definitions", "tools", name), each) for name, each in section.tools.items()}
    models = {name: build_model(document, ("definitions", "models", name), each) for name, each in section.models.items()}
    return Registered(
        makers={name: maker for name, maker in makers.items() if maker is not None},
        tools={**built_in_tools(), **{name: tool for name, tool in tools.items() if tool is not None}},
        models={name: model for name, model in models.items() if model is not None},
        environment={name: os.environ[name] for name in section.environment if name in os.environ},
        guard=AddressGuard(private=section.private_remotes, field=REMOTE_AGENT),
    )


def model_specs(settings: Settings) -> ModelSpecs:
    """Returns the registered models as the file writes them. Those of code are missing: a policy cannot name them."""
    written = settings.document.value(("definitions", "models")) or {}
    return {name: spec for name, spec in written.items() if not _is_imported(spec)}


def _is_imported(spec: JsonValue) -> bool:
    return any(map(_is_imported, spec)) if isinstance(spec, list) else isinstance(spec, dict) and "import" in spec


def _read_maker(document: Document, where: Where, reference: Reference) -> Any:
    """Imports a registered maker, with its options bound; None after reporting a problem."""
    try:
        maker = resolve(reference.path, document.folder)
        if not callable(maker):
            raise ConfigError(f"{reference.path} is no function that makes agents.", fix="Name a function, or a class.")
    except TurnwiseError as error:
        document.report_error(where, error)
        return None
    return functools.partial(maker, **reference.options) if reference.options else maker


def _read_tool(document: Document, where: Where, item: Any) -> Any:
    tool = build_tool(document, where, item)
    return AgentTool(tool.name, description=tool.description) if isinstance(tool, AgentReference) else tool
