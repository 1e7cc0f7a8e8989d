"""Resolves Turnwise as pip would for a user, and fails when that is impossible or holds a framework back. Installs nothing.

Run by ./dev check-extras. It asks the package index, so it is no test of pytest.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FRAMEWORKS = {
    "openai-agents": ("serve,otel,openai-agents", ("openai-agents",)),
    "google-adk": ("serve,otel,adk", ("google-adk",)),
    "langgraph": ("serve,otel,langgraph", ("langgraph", "langchain-openai")),
    "pydantic-ai-slim": ("serve,otel,llm,pydantic-ai", ("pydantic-ai-slim",)),
    "autogen-agentchat": ("serve", ("autogen-agentchat",)),
    "semantic-router": ("serve", ("semantic-router",)),
}
"""For each framework: the extras it is installed with, and what is installed beside them. Each must come out newest."""


def resolve(*requirements: str) -> dict[str, str] | None:
    """Returns the versions that pip would install, by package; None when there is no solution."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-qq", "--dry-run", "--ignore-installed"]
    done = subprocess.run([*command, "--report", "-", *requirements], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return None
    found = [each["metadata"] for each in json.loads(done.stdout)["install"]]
    return {each["name"].lower().replace("_", "-"): each["version"] for each in found}


def held_back(alone: dict[str, str], beside: dict[str, str], packages: tuple[str, ...]) -> list[str]:
    """Returns a line for each package that Turnwise holds at another version than it has alone."""
    return [
        f"{package} {alone[package]} becomes {beside.get(package, 'nothing')}"
        for package in packages
        if beside.get(package) != alone[package]
    ]


def main() -> int:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    failures = []
    for wanted in [".", *(f".[{extra}]" for extra in extras), *(f".[serve,{extra}]" for extra in extras if extra != "serve")]:
        print(f"check-extras: {wanted}", flush=True)
        if resolve(wanted) is None:
            failures.append(f"{wanted} cannot be installed")
    for framework, (names, packages) in FRAMEWORKS.items():
        print(f"check-extras: .[{names}] with {', '.join(packages)}", flush=True)
        alone, beside = resolve(*packages), resolve(f".[{names}]", *packages)
        if alone is None or beside is None:
            failures.append(f".[{names}] with {framework} cannot be installed")
        else:
            failures += [f".[{names}]: {line}" for line in held_back(alone, beside, packages)]
    for line in failures:
        print(f"check-extras: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
