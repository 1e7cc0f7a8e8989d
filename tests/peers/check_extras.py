"""Resolves Turnwise as pip would for a user, and fails when that is impossible or holds a framework back. Installs nothing.

Run by ./dev check-extras. It asks the package index, so it is no test of pytest.
"""

import json
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 4
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


def check_extra(extra: str) -> list[str]:
    """Returns what is wrong with installing that extra by itself."""
    print(f"check-extras: .[{extra}]", flush=True)
    return [] if resolve(f".[{extra}]") is not None else [f".[{extra}] cannot be installed"]


def check_framework(framework: str) -> list[str]:
    """Returns what is wrong with installing Turnwise beside that framework."""
    names, packages = FRAMEWORKS[framework]
    print(f"check-extras: .[{names}] with {', '.join(packages)}", flush=True)
    alone, beside = resolve(*packages), resolve(f".[{names}]", *packages)
    if alone is None or beside is None:
        return [f".[{names}] with {framework} cannot be installed"]
    return [f".[{names}]: {line}" for line in held_back(alone, beside, packages)]


def main() -> int:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    # pip mostly waits for the index.
    with ThreadPoolExecutor(AT_ONCE) as threads:
        checks = [*threads.map(check_framework, FRAMEWORKS), *threads.map(check_extra, extras)]
    failures = [line for lines in checks for line in lines]
    for line in failures:
        print(f"check-extras: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
