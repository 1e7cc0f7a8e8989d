"""The schema of turnwise.yaml and the loader accept the project's own files and pages, and refuse keys that do not exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from turnwise.config.schema import file_schema
from turnwise.config.settings import read_settings

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FILES = [
    *sorted(file for file in (ROOT / "examples").rglob("*.yaml") if file.name != "definitions.yaml"),
    *sorted((ROOT / "src" / "turnwise" / "cli" / "starter").rglob("*.yaml.txt")),
]
_FENCE = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OTHER_FILES = ("# broken.yaml", "# definitions.yaml")
"""How blocks begin that are wrong on purpose, and those that `turnwise agents import` reads."""
_OF_OTHERS = {"services", "apiVersion"}
"""Keys of files for Docker Compose and Kubernetes."""
SCHEMA = file_schema()
VARIABLES = {"STEPS": "3", "DATABASE_URL": "sqlite://"}


def loader_mistakes(folder: Path, given: str) -> list[str]:
    """The mistakes that the loader finds in the structure of a file."""
    (folder / "turnwise.yaml").write_text(given, "utf-8")
    return [str(error) for error in read_settings(folder / "turnwise.yaml", VARIABLES).document.problems]


def mistakes(given: Any) -> list[str]:
    return [f"{list(error.absolute_path)}: {error.message[:300]}" for error in Draft7Validator(SCHEMA).iter_errors(given)]


def written() -> Iterator[Any]:
    for file in FILES:
        yield pytest.param(file.read_text("utf-8"), id=str(file.relative_to(ROOT)))
    for page in PAGES:
        for number, block in enumerate(_FENCE.findall(page.read_text("utf-8"))):
            given, *more = yaml.safe_load_all(block)
            if more or not isinstance(given, dict) or block.startswith(_OTHER_FILES):
                continue
            if not _OF_OTHERS & given.keys():
                missing = {"app": "some", "root": "m:a"}.items()
                text = "".join(f"{key}: {value}\n" for key, value in missing if key not in given)
                yield pytest.param(text + block, id=f"{page.name}-{number}")


def test_it_is_a_schema() -> None:
    Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("given", list(written()))
def test_what_we_write_is_right(given: str, tmp_path: Path) -> None:
    assert mistakes(yaml.safe_load(given)) == []
    assert loader_mistakes(tmp_path, given) == []


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"app": "a", "agent": []},
        {"app": "a", "agents": [{"name": "x", "run": "m:x", "patern": ["a"]}]},
        {"app": "a", "agents": [{"name": "x"}]},
        {"app": "a", "agents": [{"name": "x", "kind": "llm", "model": "openai:gpt-5", "tool": []}]},
        {"app": "a", "agents": [{"name": "x", "kind": "llm", "model": "m", "tools": [{"mcp": {"comand": ["x"]}}]}]},
        {"app": "a", "agents": [{"name": "x", "kind": "team", "children": [], "leed": "x"}]},
        {"app": "a", "agents": [{"name": "x", "kind": "flow", "tasks": [{"name": "t", "needs": ["u"]}]}]},
        {"app": "a", "agents": [{"name": "x", "kind": "flow", "tasks": [{"name": "t"}], "until": {"max_turn": 3}}]},
        {"app": "a", "agents": [{"name": "x", "kind": "loop", "children": [{"name": "y", "run": "m:y", "kinds": 1}]}]},
        {"app": "a", "agents": [{"run": "m:x", "patterns": [{"regex": "a", "confidnce": 1}]}]},
        {"app": "a", "policy": {"use": "default", "option": {}}},
        {"app": "a", "policy": {"stages": [{"selector": "patterns", "optoins": {}}]}},
        {"app": "a", "encoder": {"url": "http://x", "modle": "y"}},
        {"app": "a", "limits": {"step": 3}},
        {"app": "a", "limits": {"steps": "three"}},
        {"app": "a", "run": {"limits": {}}},
        {"app": "a", "gateway": {"hots": "x"}},
        {"app": "a", "gateway": {"auth": {"key": True}}},
        {"app": "a", "gateway": {"protocols": {"a2a": {"nme": "x"}}}},
        {"app": "a", "guardrails": [{"use": "length", "mesage": 3}]},
        {"app": "a", "hooks": [{"import": "m:x", "option": {}}]},
    ],
    ids=str,
)
def test_a_misspelled_key_is_refused(given: Any, tmp_path: Path) -> None:
    assert mistakes(given)
    assert loader_mistakes(tmp_path, yaml.safe_dump({"root": "m:a"} | given))


@pytest.mark.parametrize(
    "given",
    [
        {"app": "a", "x-notes": {"anything": 1}},
        {"app": "a", "gateway": {"port": "${PORT:-8000}", "protocols": {"a2a": False, "mcp": {"agents": True}}}},
        {"app": "a", "limits": {"steps": "${STEPS}"}, "agents": [{"run": "m:x", "enabled": "${ON:-true}"}]},
        {"app": "a", "agents": ["m:x", {"name": "y", "kind": "sequential", "children": ["x", "m:z", {"run": "m:w"}]}]},
    ],
    ids=str,
)
def test_what_may_be_written_so_is_taken(given: Any, tmp_path: Path) -> None:
    assert mistakes(given) == []
    assert loader_mistakes(tmp_path, yaml.safe_dump({"root": "m:a"} | given)) == []
