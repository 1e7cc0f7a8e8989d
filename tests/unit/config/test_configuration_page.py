"""The page of the configuration has every key of the models, with the models' defaults."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from turnwise.config.agent_section import AgentSection, FlowSection, LlmSection, TaskEntry
from turnwise.config.app_file import AppFile, ChangedPolicy, EndpointEncoderSection, WrittenPolicy
from turnwise.config.part_section import McpTools
from turnwise.config.validation import keys_of
from turnwise.facts.gateway import CallerLimits, GatewayConfig, JwtConfig
from turnwise.facts.limits import Limits, ProcessConfig, RunConfig

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "configuration.md").read_text("utf-8")
BLOCKS = [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
ROWS = [line for line in PAGE.splitlines() if line.startswith("| `")]


def block_of(*path: str) -> dict[str, Any]:
    """The values below that path, of all YAML blocks of the page; the first counts."""
    found: dict[str, Any] = {}
    for block in BLOCKS:
        value: Any = block
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        found = {**value, **found} if isinstance(value, dict) else found
    return found


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (Limits, ("limits",)),
        (RunConfig, ("run",)),
        (ProcessConfig, ("process",)),
        (GatewayConfig, ("gateway",)),
        (CallerLimits, ("gateway", "limits")),
    ],
)
def test_defaults_are_those_of_the_models(model: type[BaseModel], path: tuple[str, ...]) -> None:
    written = block_of(*path)
    assert set(written) <= set(keys_of(model))
    plain = {name: field.default for name, field in model.model_fields.items() if not isinstance(field.default, BaseModel)}
    shown = {name: tuple(value) if isinstance(value, list) else value for name, value in written.items()}
    wrong = {name: (shown[name], default) for name, default in plain.items() if name in shown and shown[name] != default}
    assert wrong.keys() <= {"auth"}
    assert [name for name in keys_of(model) if name not in written and f"`{name}" not in PAGE] == []


@pytest.mark.parametrize(
    ("model", "inherited"),
    [(AppFile, None), (LlmSection, AgentSection), (FlowSection, AgentSection), (TaskEntry, None)],
    ids=str,
)
def test_every_key_has_a_row(model: type[BaseModel], inherited: type[BaseModel] | None) -> None:
    named = {name for row in ROWS for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    keys = [key for key in keys_of(model) if inherited is None or key not in keys_of(inherited)]
    assert [key for key in keys if key not in named] == []


@pytest.mark.parametrize("model", [McpTools, ChangedPolicy, WrittenPolicy, EndpointEncoderSection, JwtConfig], ids=str)
def test_every_key_is_written_somewhere(model: type[BaseModel]) -> None:
    assert [key for key in keys_of(model) if not re.search(rf"\b{key}\b", PAGE)] == []
