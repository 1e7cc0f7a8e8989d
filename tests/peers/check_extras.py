"""Resolves Turnwise as pip would for a user, and fails when that is impossible or holds a framework back. Installs nothing.

With --lowest it instead installs the lowest versions that pyproject.toml permits, in a temporary folder, and answers a message.

Run by ./dev check-extras. It asks the package index, so it is no test of pytest.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 4
LOWEST = ("serve", "postgres", "s3", "llm", "mcp", "a2a", "client", "otel", "export", "parquet", "restate")
"""The extras that are installed with their lowest versions."""
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


def lowest_versions(requirements: Iterable[str]) -> list[str]:
    """Returns a pin of the lowest version for each package. A package that is listed twice gets the higher one."""
    lowest: dict[str, str] = {}
    for requirement in requirements:
        bound = re.match(r"([\w.-]+)(?:\[[^\]]*\])?>=([\w.]+)", requirement)
        if bound is None:
            raise SystemExit(f"check-extras: {requirement} has no lower bound")
        name, version = bound.groups()
        lowest[name] = max(version, lowest.get(name, "0"), key=lambda each: [int(part) for part in each.split(".")])
    return [f"{name}=={version}" for name, version in lowest.items()]


def check_lowest(project: dict[str, Any]) -> list[str]:
    """Returns what is wrong with the lowest versions, installed together with each other."""
    extras = project["optional-dependencies"]
    used = [*project["dependencies"], *(each for extra in LOWEST for each in extras[extra])]
    example = ROOT / "examples" / "helpdesk" / "turnwise.yaml"
    with tempfile.TemporaryDirectory() as folder:
        pins = Path(folder, "lowest.txt")
        pins.write_text("\n".join(lowest_versions(used)) + "\n", "utf-8")
        python, turnwise = (str(Path(folder, "venv", "bin", name)) for name in ("python", "turnwise"))
        install = ["-m", "pip", "--disable-pip-version-check", "install", "-qq", "--constraint", str(pins)]
        steps = {
            "a virtual environment cannot be made": [sys.executable, "-m", "venv", str(Path(folder, "venv"))],
            "the lowest versions do not fit each other": [python, *install, f".[{','.join(LOWEST)}]"],
            "turnwise check fails": [turnwise, "check", "--config", str(example)],
            "a served app does not answer": [python, str(ROOT / "tests" / "peers" / "lowest_smoke.py"), str(example)],
        }
        environment = {**os.environ, "HELPDESK_SESSIONS": f"{folder}/s.db", "HELPDESK_ARTIFACTS": f"{folder}/artifacts"}
        environment |= {"TURNWISE_CACHE": "off"}
        for problem, command in steps.items():
            print(f"check-extras: {Path(command[0]).name} {' '.join(command[1:])}", flush=True)
            if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
                return [f"with the lowest versions, {problem}: see above"]
    return []


def main() -> int:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    if sys.argv[1:] == ["--lowest"]:
        return report(check_lowest(project))
    # pip mostly waits for the index.
    with ThreadPoolExecutor(AT_ONCE) as threads:
        checks = [*threads.map(check_framework, FRAMEWORKS), *threads.map(check_extra, extras)]
    return report([line for lines in checks for line in lines])


def report(failures: list[str]) -> int:
    """Prints what is wrong. Returns the exit status."""
    for line in failures:
        print(f"check-extras: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
