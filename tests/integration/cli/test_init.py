"""`turnwise init`: what it writes works as it is, without a key and without a network, and nothing is overwritten."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_play import ENVIRONMENT, turnwise
from warm_cli import warm_folder

from turnwise.facts.hints import install_command

TEMPLATES = {
    "basic": {"agents.py", "test_agents.py"},
    "llm": {"models.py", "shop_tools.py", "test_agents.py"},
    "flow": {"agents.py", "test_flow.py"},
    "adapter": {"agents.py", "test_agents.py"},
}
ALWAYS = {".gitignore", "README.md", "cases.jsonl", "turnwise.yaml"}
PATH = os.pathsep.join([str(warm_folder()), str(Path(sys.executable).parent), os.environ["PATH"]])


@pytest.fixture(params=sorted(TEMPLATES))
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A project of each template. The key of a provider is there, but what is tested does not ask for it."""
    said = turnwise("init", "fresh", "--template", request.param, cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert {path.name for path in (tmp_path / "fresh").iterdir()} == ALWAYS | TEMPLATES[request.param]
    return tmp_path / "fresh"


def test_nobody_has_anything_to_complain_about(fresh: Path) -> None:
    assert turnwise("check", cwd=fresh, cold=True).returncode == 0
    assert turnwise("lint", "--strict", cwd=fresh).stdout.startswith("ok · nothing to find in ")
    assert turnwise("eval", "cases.jsonl", "--min", "accuracy=1", cwd=fresh).returncode == 0


def test_the_readme_is_true_and_its_own_test_passes(fresh: Path) -> None:
    commands = [line.strip() for line in (fresh / "README.md").read_text().splitlines() if line.startswith("    ")]
    assert any("pytest" in command for command in commands)
    assert not any("install" in command for command in commands), "what is played must not change the environment"
    done = subprocess.run(
        ["/bin/sh", "-c", "\n".join(["set -e", *commands])],
        cwd=fresh,
        stdin=subprocess.DEVNULL,
        env=ENVIRONMENT | {"PATH": PATH, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed in " in done.stdout


def test_its_test_asks_no_real_model_even_with_a_key(tmp_path: Path) -> None:
    for template in ("llm", "adapter"):
        assert turnwise("init", template, "-t", template, cwd=tmp_path).returncode == 0
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            cwd=tmp_path / template,
            env=ENVIRONMENT | {"OPENAI_API_KEY": "none", "HTTPS_PROXY": "http://127.0.0.1:9"},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout


def test_the_code_is_clean(fresh: Path) -> None:
    ruff = Path(sys.executable).parent / "ruff"
    rules = ["--select", "E,F,W,I,B,UP", "--line-length", "128", "--config", "lint.isort.known-first-party=['turnwise']"]
    done = subprocess.run([ruff, "check", *rules, "."], cwd=fresh, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_it_says_once_where_to_go(tmp_path: Path) -> None:
    said = turnwise("init", "my shop", cwd=tmp_path).stdout
    commands = ["cd 'my shop'", "turnwise check", "turnwise select 'Where is my order 1001?'", "turnwise chat"]
    assert said.endswith("Now try:\n" + "".join(f"  {command}\n" for command in commands))
    model = turnwise("init", "llm", "--template", "llm", cwd=tmp_path).stdout
    assert model.endswith("install the extra llm and set OPENAI_API_KEY.\n")


@pytest.mark.parametrize(("template", "extra"), [("basic", "serve"), ("llm", "llm"), ("adapter", "pydantic-ai")])
def test_the_readme_has_the_command_that_installs_the_extra(tmp_path: Path, template: str, extra: str) -> None:
    assert turnwise("init", "--template", template, cwd=tmp_path).returncode == 0
    readme = (tmp_path / "README.md").read_text("utf-8")
    assert f"`{install_command([extra])}`" in readme
    assert "@install" not in readme


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    assert turnwise("init", "shop", cwd=tmp_path).returncode == 0
    (tmp_path / "shop" / "README.md").unlink()
    said = turnwise("init", "shop", "--template", "llm", cwd=tmp_path)
    assert said.returncode == 2
    there = "shop/cases.jsonl, shop/test_agents.py, shop/turnwise.yaml"
    assert f"There is already {there}; nothing was written." in said.stderr
    assert not (tmp_path / "shop" / "README.md").exists()


def test_a_gitignore_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("mine\n")
    told = json.loads(turnwise("init", "--json", cwd=tmp_path).stdout)
    assert told["kept"] == [".gitignore"]
    assert "turnwise.yaml" in told["written"]
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


def test_a_template_that_does_not_exist(tmp_path: Path) -> None:
    said = turnwise("init", "--template", "nope", cwd=tmp_path)
    assert said.returncode == 2
    assert said.stderr.startswith("error[usage]: Invalid value for '--template'")
    assert list(tmp_path.iterdir()) == []
