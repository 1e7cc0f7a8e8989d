"""The documentation site: it is built strictly, loads nothing from elsewhere, and has what the code says."""

import importlib
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer.main
import yaml

from turnwise.cli.app import app
from turnwise.config.schema import file_schema

ROOT = Path(__file__).resolve().parents[2]
WEBSITE, PICTURES = ROOT / "website", ROOT / "docs" / "pictures"
NEEDED = ("zensical", "mkdocstrings")
SECONDS = 600
_LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"?(https?:)?//[^\">\s]+", re.IGNORECASE)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site. A dead link or anchor fails the build."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        pytest.skip(f"{' and '.join(missing)} not installed: ./dev test installs the group docs")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(WEBSITE / "build.py"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-10_000:]
    return out / "site"


def text_of(built: Path, page: str) -> str:
    return (built / page / "index.html").read_text("utf-8")


@pytest.mark.timeout(SECONDS)
def test_every_page_of_the_navigation_is_built(built: Path) -> None:
    settings = (WEBSITE / "mkdocs.yml").read_text("utf-8")
    pages = re.findall(r"[\w./-]+\.md", settings.partition("\nnav:\n")[2])
    assert len(pages) > 50
    places = [page.removesuffix(".md").removesuffix("index").strip("/") for page in pages]
    assert [place for place in places if not (built / place / "index.html").exists()] == []


@pytest.mark.timeout(SECONDS)
def test_nothing_is_loaded_from_elsewhere(built: Path) -> None:
    for page in built.rglob("*.html"):
        assert _LOADED.search(page.read_text("utf-8")) is None, page
    for style in built.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", style.read_text("utf-8")), style


@pytest.mark.timeout(SECONDS)
def test_the_search_finds_the_words_of_other_systems(built: Path) -> None:
    index = (built / "search.json").read_text("utf-8")
    words = ("PatternStore", "findAgentToRun", "ConversationalSelector", "GraphBrainService", "handoff", "utterances")
    assert [word for word in words if word not in index] == []


@pytest.mark.timeout(SECONDS)
def test_the_reference_has_every_public_name(built: Path) -> None:
    page = text_of(built, "reference/python")
    for face in ("turnwise", "turnwise.agents", "turnwise.selection", "turnwise.stores", "turnwise.testing"):
        names = importlib.import_module(face).__all__
        assert [name for name in names if name not in page] == [], face


@pytest.mark.timeout(SECONDS)
def test_the_reference_has_every_command_and_key(built: Path) -> None:
    page = text_of(built, "reference/cli")
    command = typer.main.get_command(app)
    assert [name for name in getattr(command, "commands", {}) if f"turnwise {name}" not in page] == []
    keys = text_of(built, "reference/configuration")
    assert [key for key in file_schema()["properties"] if f"<code>{key}</code>" not in keys] == []


def test_the_pictures_are_as_they_are_drawn() -> None:
    """The picture of the policy shows its stages in their order; one that is out of step is drawn by website/pictures.py."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import pictures; "
        "[print(name, text, sep='') for name, text in pictures.pictures()]"
    )
    done = subprocess.run([sys.executable, "-c", code, str(WEBSITE)], capture_output=True, text=True, check=True)
    drawn = "".join(f"{file.name}{file.read_text('utf-8')}\n" for file in (PICTURES / name for name in order(done.stdout)))
    assert done.stdout == drawn
    assert {file.name for file in PICTURES.iterdir()} == set(order(done.stdout))


def order(said: str) -> list[str]:
    return re.findall(r"^(\w+\.svg)<svg", said, re.MULTILINE)


def test_the_navigation_has_its_eight_parts() -> None:
    settings = yaml.safe_load((WEBSITE / "mkdocs.yml").read_text("utf-8"))
    parts = [next(iter(part)) for part in settings["nav"]]
    assert parts == ["Start", "Build agents", "Route", "Run in production", "Improve", "Protocols", "Reference", "Design"]


def test_the_kubernetes_files_are_whole() -> None:
    """They are read as YAML, and their parts fit together. No cluster runs them."""
    page = (ROOT / "docs" / "start" / "production.md").read_text("utf-8")
    block = re.search(r"^```yaml\n# kubernetes\.yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert block is not None
    deployment, service = yaml.safe_load_all(block[1])
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == labels == deployment["spec"]["selector"]["matchLabels"]
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["containerPort"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/api/v1/ready"


def test_the_readme_shows_a_decision_with_its_reason_early() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert next(number for number, line in enumerate(lines, 1) if "-> orders: " in line) <= 60
    assert {"## What it does", "## What it does not do"} <= set(lines)


def test_the_readme_names_every_example_and_each_has_a_page() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    examples = [folder for folder in (ROOT / "examples").iterdir() if any(folder.rglob("*.yaml"))]
    assert len(examples) >= 5
    assert [
        each.name for each in examples if f"(examples/{each.name})" not in readme or not (each / "README.md").exists()
    ] == []
