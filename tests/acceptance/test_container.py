"""The Dockerfile and compose.yaml, as far as they can be checked without an engine: all that they name is there."""

import json
import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from cli_play import turnwise

from turnwise import Runner, SqlSessionStore, agent
from turnwise.assemble import check_app
from turnwise.facts.gateway import GatewayConfig
from turnwise.gateway.app import gateway
from turnwise.gateway.server import front_for

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
DESK = ROOT / "examples" / "helpdesk"
PASSWORD = "POSTGRES_PASSWORD"


class Line(NamedTuple):
    """An instruction, and what it says."""

    name: str
    text: str

    @property
    def words(self) -> list[str]:
        """Of the form of a list, which needs no shell."""
        said: list[str] = json.loads(self.text)
        return said


def lines_of(dockerfile: str) -> list[Line]:
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE))
    return [Line(*line.split(" ", 1)) for line in text.splitlines() if line.strip()]


LINES = lines_of((ROOT / "Dockerfile").read_text("utf-8"))
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICE: dict[str, Any] = COMPOSE["services"]["desk"]


def said(name: str) -> list[Line]:
    return [line for line in LINES if line.name == name]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    kept = [line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    sources = [name for line in said("COPY") if "--from" not in line.text for name in line.text.split(" ")[:-1]]
    assert "src" in sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in kept), source
    needed = {PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml", "constraints.txt", "src"}
    assert needed <= set(sources)


def test_the_python_is_one_that_will_do() -> None:
    (default,) = [line.text for line in said("ARG")]
    version = default.removeprefix("PYTHON=")
    assert f"Programming Language :: Python :: {version}" in PROJECT["classifiers"]
    assert [line.text.split(" ")[0] for line in said("FROM")] == ["python:${PYTHON}-slim"] * 2


def test_the_extras_are_there() -> None:
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", " ".join(line.text for line in said("RUN")))
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert "postgres" in extras.split(",")


def test_the_command_is_there_and_signals_reach_it(tmp_path: Path) -> None:
    (entry,), (command,) = (said(name) for name in ("ENTRYPOINT", "CMD"))
    assert entry.words == ["turnwise"]
    assert entry.words[0] in PROJECT["scripts"]
    for words in (command.words, SERVICE["command"]):
        shown = turnwise(words[0], "--help", cwd=tmp_path).stdout
        assert all(word in shown for word in words if word.startswith("--")), words


def test_it_runs_as_nobody_in_particular() -> None:
    (user,) = said("USER")
    assert user.text == "turnwise"
    assert LINES.index(user) > max(LINES.index(line) for line in said("RUN"))
    assert any(f"useradd --uid 10001 --create-home {user.text}" in line.text for line in said("RUN"))


def test_nothing_secret_is_in_it() -> None:
    for line in said("ENV") + said("ARG"):
        assert not re.search(r"key|password|secret|token", line.text, re.IGNORECASE)
    assert "turnwise.yaml" not in (ROOT / "Dockerfile").read_text()
    # A password comes from outside, and there is none that everybody knows.
    settings = [str(value) for service in COMPOSE["services"].values() for value in service["environment"].values()]
    named = [value for value in settings if PASSWORD in value]
    assert len(named) == 2
    assert all(f"${{{PASSWORD}:?" in value for value in named)


async def test_its_health_is_asked_for_where_it_is_told() -> None:
    @agent
    def echo(message: str) -> str:
        return message

    (check,), (port,) = said("HEALTHCHECK"), said("EXPOSE")
    url, path = re.findall(r"(http://[\w.:]+)(/[\w/]+)", check.text)[0]
    app = gateway(front_for(Runner(echo, store=SqlSessionStore("sqlite://")), GatewayConfig()))
    assert "get" in app.openapi()["paths"][path]
    assert url == f"http://127.0.0.1:{port.text}"
    for words in (said("CMD")[0].words, SERVICE["command"]):
        assert words[words.index("--port") + 1] == port.text
        assert words[words.index("--host") + 1] == "0.0.0.0"
    assert SERVICE["ports"][0].endswith(f":{port.text}")
    assert " CMD [" in check.text
    json.loads(check.text.partition(" CMD ")[2])


def test_what_is_mounted_is_there() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / source).is_dir(), volume
    assert (ROOT / SERVICE["build"] / "Dockerfile").is_file()
    assert SERVICE["depends_on"]["database"]["condition"] == "service_healthy"
    assert COMPOSE["services"]["database"]["healthcheck"]["test"][0] == "CMD"


def test_the_desk_that_is_composed_is_configured_rightly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words, environment = SERVICE["command"], SERVICE["environment"]
    monkeypatch.setenv("DATABASE_URL", re.sub(r"\$\{[^}]*\}", "secret", environment["DATABASE_URL"]))
    monkeypatch.setenv("HELPDESK_DB", str(tmp_path / "shop.db"))
    monkeypatch.delenv("HELPDESK_MODEL", raising=False)
    file = DESK / words[words.index("--config") + 1]
    report = check_app(file)
    assert report.errors == ()
    assert report.store == "postgresql://turnwise:***@database/turnwise"
    served, plain = (yaml.safe_load(path.read_text("utf-8")) for path in (file, DESK / "turnwise.yaml"))
    assert {key: served[key] for key in ("app", "root", "policy", "run")} == {
        key: plain[key] for key in ("app", "root", "policy", "run")
    }
    config = GatewayConfig.model_validate(served["gateway"], strict=False)
    assert config.auth is not None
    assert int(SERVICE["stop_grace_period"].removesuffix("s")) > config.grace_seconds
