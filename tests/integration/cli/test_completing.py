"""What a shell completes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cli_play import ENVIRONMENT, turnwise, written
from warm_cli import warm_folder

CONFIGURATION = """
app: test
root: none:desk
agents:
  - {name: payroll, run: none:payroll, roles: [staff, boss]}
  - {name: report, kind: flow, children: [{run: none:reader}], tasks: [{name: research}]}
  - {name: review, kind: flow, children: [{run: none:judge}], tasks: [{name: verdict}]}
"""
MODULE = "open('imported', 'w').close()\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return written(tmp_path, CONFIGURATION, none=MODULE)


def completed(folder: Path, words: str) -> list[str]:
    """What the last of these words may become, as bash asks for it."""
    count = len(words.split(" ")) - 1
    asked = {"_TURNWISE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    said = turnwise(cwd=folder, environment=asked)
    assert (said.returncode, said.stderr) == (0, "")
    return said.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("turnwise se", ["select", "serve", "sessions"]),
        ("turnwise sessions f", ["fork"]),
        ("turnwise flow run re", ["report", "review"]),
        ("turnwise flow show rev", ["review"]),
        ("turnwise chat --role ", ["boss", "staff"]),
        ("turnwise keys create --agent-role s", ["staff"]),
        ("turnwise keys create --scope sessions:", ["sessions:read", "sessions:write"]),
        ("turnwise eval --policy ad", ["adk"]),
        ("turnwise init --template b", ["basic"]),
    ],
)
def test_commands_and_names_are_completed(project: Path, words: str, expected: list[str]) -> None:
    assert completed(project, words) == expected
    assert not (project / "imported").exists()


def test_another_configuration_counts(project: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("app: x\nagents: [{name: weekly, kind: flow, tasks: []}]\n")
    assert completed(project, "turnwise flow show --config other.yaml ") == ["weekly"]


def test_a_file_that_cannot_be_read_completes_nothing(tmp_path: Path) -> None:
    assert completed(tmp_path, "turnwise flow run ") == []
    (tmp_path / "turnwise.yaml").write_text("agents: [\n")
    assert completed(tmp_path, "turnwise flow run ") == []


def test_bash_completes_with_the_script_that_is_shown(project: Path) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    script = (
        'eval "$(_TURNWISE_COMPLETE=source_bash turnwise)"; COMP_WORDS=(turnwise flow run re); COMP_CWORD=3; '
        '_turnwise_completion turnwise; echo "${COMPREPLY[@]}"'
    )
    path = f"{warm_folder()}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "-c", script], cwd=project, env=ENVIRONMENT | {"PATH": path}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("report review\n", "")


@pytest.mark.parametrize(("shell", "words"), [("zsh", "#compdef turnwise"), ("fish", "complete --command turnwise")])
def test_there_is_a_script_for_other_shells(project: Path, shell: str, words: str) -> None:
    said = turnwise(cwd=project, environment={"_TURNWISE_COMPLETE": f"source_{shell}"})
    assert said.returncode == 0
    assert words in said.stdout


def test_the_help_says_how_to_install_it(tmp_path: Path) -> None:
    said = turnwise("--help", cwd=tmp_path).stdout
    assert "--install-completion" in said
    assert "--show-completion" in said
