"""Reads what definitions may use: the section `definitions` of a configuration file."""

import functools
import os
from typing import Any

from pydantic import JsonValue

from turnwise.access.address_guard import REMOTE_AGENT, AddressGuard
from turnwise.config.agent_factory import Registered
from turnwise.config.app_file import Reference
from turnwise.config.document import Document, Where
from turnwise.config.importing import resolve
from turnwise.config.model_entries import build_model
from turnwise.config.policies import ModelSpecs
from turnwise.config.settings import Settings
from turnwise.config.tool_entries import AgentReference, build_tool, built_in_tools
from turnwise.facts.errors import ConfigError, TurnwiseError
from turnwise.tools.agent_tool import AgentTool


def read_registered(settings: Settings) -> Registered:
    """Builds the makers, tools and models. Reports and omits those with problems. Opens no connection."""
    document, section = settings.document, settings.file.definitions
    makers = {name: _maker(document, ("definitions", "makers", name), each) for name, each in section.makers.items()}
    tools = {name: _tool(document, ("definitions", "tools", name), each) for name, each in section.tools.items()}
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


def _maker(document: Document, where: Where, reference: Reference) -> Any:
    """Imports a registered maker, with its options bound; None after reporting a problem."""
    try:
        maker = resolve(reference.path, document.folder)
        if not callable(maker):
            raise ConfigError(f"{reference.path} is no function that makes agents.", fix="Name a function, or a class.")
    except TurnwiseError as error:
        document.report_error(where, error)
        return None
    return functools.partial(maker, **reference.options) if reference.options else maker


def _tool(document: Document, where: Where, item: Any) -> Any:
    tool = build_tool(document, where, item)
    return AgentTool(tool.name, description=tool.description) if isinstance(tool, AgentReference) else tool
