"""`turnwise lint`, in real processes (behaviour E6)."""

import json
from pathlib import Path

import pytest
from cli_play import turnwise

BROKEN = """
app: shop
root: desk
policy: adk
agents:
  - agents:desk
  - name: everything
    run: agents:hours
    patterns: ['.*']
    description: Does everything.
  - name: old
    run: agents:hours
    enabled: false
    description: Was here before.
  - name: below
    run: agents:hours
    parent: old
    description: Is below one that is gone.
"""


@pytest.fixture
def broken(shop: Path) -> Path:
    (shop / "turnwise.yaml").write_text(BROKEN)
    return shop


def test_findings_are_told_with_what_to_do(broken: Path) -> None:
    """E6: errors fail a build only when that is asked for."""
    said = turnwise("lint", cwd=broken)
    assert (said.returncode, said.stderr) == (0, "")
    lines = said.stdout.splitlines()
    assert lines[:3] == [
        "error[agent.unreachable] Nobody can reach below: old above it is disabled.",
        "    desk → old → below",
        "  Enable the agent above it, or move or disable this one.",
    ]
    assert "error[pattern.saturated] A pattern of everything matches any message." in lines
    assert lines[-1] == "2 errors, 1 note in 4 agents"
    assert turnwise("lint", "--strict", cwd=broken).returncode == 1


def test_findings_as_json(broken: Path) -> None:
    """E6: codes that stay, for programs."""
    data = json.loads(turnwise("lint", "--json", cwd=broken).stdout)
    assert {key: data[key] for key in ("agents", "errors", "warnings", "notes")} == {
        "agents": 4,
        "errors": 2,
        "warnings": 0,
        "notes": 1,
    }
    assert [finding["code"] for finding in data["findings"]] == ["agent.unreachable", "pattern.saturated", "example.none"]
    assert data["findings"][1] == {
        "code": "pattern.saturated",
        "severity": "error",
        "agents": ["everything"],
        "problem": "A pattern of everything matches any message.",
        "evidence": [".*"],
        "fix": "Say what should be in the message, or make the agent the default.",
    }


def test_the_starter_project_is_clean(shop: Path) -> None:
    """E6: what `init` writes has nothing worse than few examples."""
    data = json.loads(turnwise("lint", "--json", cwd=shop).stdout)
    assert {finding["code"] for finding in data["findings"]} <= {"example.few"}


def test_an_examples_file_is_linted(tmp_path: Path) -> None:
    """E6: without a configuration."""
    lines = [{"text": text, "agent": agent} for agent in ("a", "b") for text in ("hello there", f"only for {agent}")]
    (tmp_path / "examples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = json.loads(turnwise("lint", "--examples", "examples.jsonl", "--json", "--strict", cwd=tmp_path).stdout)
    assert data["findings"][0]["code"] == "example.shared"
    assert turnwise("lint", cwd=tmp_path).returncode == 2
