"""Holds the public faces: their names can be imported, and documentation, examples and templates import from nothing else."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "turnwise"
FACES = (
    "turnwise",
    *(
        f"turnwise.{name}"
        for name in (
            "agents", "client", "content", "errors", "flows", "gateway", "guardrails", "models", "selection", "stores",
            "telemetry", "testing", "tools", "transcript",
        )
    ),
)  # fmt: skip
SUITES = {f"turnwise.testing.{path.stem}" for path in (SOURCE / "testing").glob("*_suite.py")}
"""Conformance suites are imported as modules of `turnwise.testing`."""

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = [*sorted((ROOT / "examples").rglob("*.py")), *sorted((SOURCE / "cli" / "starter").rglob("*.py.txt"))]
DATA = [*sorted((ROOT / "examples").rglob("*.yaml")), *sorted((SOURCE / "cli" / "starter").rglob("*.yaml.txt"))]
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_IMPORT_PATH = re.compile(r"\b(turnwise[\w.]*):[A-Za-z_]\w*")
_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n((?:    .*\n|\n)+)", re.MULTILINE)


def file_of(face: str) -> Path:
    path = SOURCE.joinpath(*face.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imported(code: str) -> Iterator[str]:
    """Returns the modules of ours that the code imports from."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "turnwise":
            yield from (
                f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in SUITES else node.module
                for alias in node.names
            )
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "turnwise")


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_can_be_imported(face: str) -> None:
    module = importlib.import_module(face)
    assert len(module.__all__) == len(set(module.__all__)) > 0
    assert [name for name in module.__all__ if getattr(module, name, None) is None] == []


@pytest.mark.parametrize("face", FACES)
def test_no_public_name_is_hidden_by_a_module(face: str) -> None:
    """Importing a module sets an attribute of its package, which would take the place of a function of that name."""
    module = importlib.import_module(face)
    modules = {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    assert modules & set(module.__all__) == set()


@pytest.mark.parametrize("face", FACES)
def test_type_checkers_see_the_names_that_are_exported(face: str) -> None:
    text = file_of(face).read_text("utf-8")
    block = _FOR_TYPES.search(text)
    if block is None:
        return
    body = ast.parse("if True:\n" + block.group(1)).body[0]
    assert isinstance(body, ast.If)
    seen = {(node.module, alias.asname) for node in body.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {name for _, name in seen} == set(importlib.import_module(face).__all__)
    there = importlib.import_module(face)
    assert [
        name for home, name in seen if getattr(there, str(name)) is not getattr(importlib.import_module(str(home)), str(name))
    ] == []


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'turnwise\.flows' has no attribute 'Flwo'"):
        importlib.import_module("turnwise.flows").Flwo  # noqa: B018


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_import_from_faces_only(page: Path) -> None:
    blocks = "\n".join(block for block in _PYTHON.findall(page.read_text("utf-8")))
    assert set(imported(blocks)) - {*FACES, *SUITES} == set()


@pytest.mark.parametrize("file", CODE, ids=lambda file: str(file.relative_to(ROOT)))
def test_examples_import_from_faces_only(file: Path) -> None:
    assert set(imported(file.read_text("utf-8"))) - {*FACES, *SUITES} == set()


@pytest.mark.parametrize("file", [*PAGES, *DATA], ids=lambda file: str(file.relative_to(ROOT)))
def test_import_paths_of_ours_lead_to_faces(file: Path) -> None:
    assert set(_IMPORT_PATH.findall(file.read_text("utf-8"))) - set(FACES) == set()
