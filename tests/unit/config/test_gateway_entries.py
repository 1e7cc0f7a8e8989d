"""The section `gateway` of a configuration file, and what cannot stand there together."""

from pathlib import Path
from typing import Any

import pytest
from config_play import line_only

from turnwise import SqlSessionStore
from turnwise.config.gateway_entries import (
    access_control,
    check_gateway,
    gateway_problems,
    is_loopback,
    protocols_without_extra,
)
from turnwise.config.settings import read_settings
from turnwise.facts.errors import ConfigError
from turnwise.facts.gateway import A2aConfig, AuthConfig, CallerLimits, GatewayConfig, JwtConfig, McpConfig, Protocols

KEYS = AuthConfig()


def mistakes(**given: Any) -> list[tuple[Any, str]]:
    return [(where, error.problem) for where, error in gateway_problems(GatewayConfig(**given))]


def read(folder: Path, gateway: str) -> tuple[GatewayConfig, list[str]]:
    """What a file with that section says, and what is wrong with it."""
    file = folder / "turnwise.yaml"
    file.write_text(f"app: shop\nroot: agents:desk\ngateway:\n{gateway}")
    settings = read_settings(file, {"PORT": "8123"})
    config = check_gateway(settings.document, settings.file.gateway)
    return config, [line_only(error).removeprefix(f"{file}:") for error in settings.document.problems]


def test_the_section_becomes_a_value(tmp_path: Path) -> None:
    config, problems = read(
        tmp_path,
        "  host: 0.0.0.0\n  port: ${PORT}\n  origins: ['https://app.example', 'http://[::1]:3000']\n"
        "  auth: {jwt: {issuer: us, jwks_url: 'https://id.example/keys'}}\n  trusted_proxies: [10.0.0.0/8, '::1']\n"
        "  limits: {requests: 5, shared: true}\n",
    )
    assert problems == []
    assert (config.host, config.port, config.limits.requests) == ("0.0.0.0", 8123, 5)
    assert config.auth is not None
    assert config.auth.keys
    assert config.auth.jwt is not None
    assert config.auth.jwt.issuer == "us"


def test_mistakes_have_their_line_and_what_to_do(tmp_path: Path) -> None:
    config, problems = read(tmp_path, "  host: 0.0.0.0\n  origins:\n    - 'https://a.example/'\n    - '*'\n  prt: 1\n")
    assert config == GatewayConfig()
    assert problems == ["8: There is no key 'prt' here. Did you mean 'port'?"]
    _, problems = read(tmp_path, "  host: 0.0.0.0\n  origins:\n    - 'https://a.example/'\n    - '*'\n")
    assert [problem.partition(":")[0] for problem in problems] == ["4", "6", "7"]
    assert "`turnwise keys create`" in problems[0]
    assert "without a path" in problems[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_everybody_may_come_in_here(host: str) -> None:
    assert is_loopback(host)
    assert mistakes(host=host) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "shop.example", "localhost.example", "", "127.0.0.1.example"])
def test_and_nowhere_else(host: str) -> None:
    assert not is_loopback(host)
    assert [where for where, _ in mistakes(host=host)] == [("host",)]
    assert mistakes(host=host, auth=KEYS) == []


@pytest.mark.parametrize(
    "origin", ["https://a.example", "http://localhost:3000", "http://[::1]:3000", "https://a-b.c_d.example"]
)
def test_origins_as_browsers_write_them(origin: str) -> None:
    assert mistakes(origins=(origin,)) == []


@pytest.mark.parametrize(
    "origin",
    [
        "a.example",
        "https://a.example/",
        "https://a.example/x",
        "https://A.example",
        "null",
        "https://*.example",
        "ftp://a.example",
        "https://me@a.example",
        "https://a.example:port",
        "",
    ],
)
def test_other_origins(origin: str) -> None:
    assert [where for where, _ in mistakes(origins=("https://a.example", origin), auth=KEYS)] == [("origins", 1)]


def test_every_page_only_where_it_has_to_bring_a_credential() -> None:
    assert mistakes(origins=("*",), auth=KEYS) == []
    assert mistakes(origins=("*",)) == [(("origins", 0), "Without gateway.auth, any web page could act as an admin here.")]


@pytest.mark.parametrize("proxy", ["nginx", "*", "10.0.0.0/33", ""])
def test_proxies_are_addresses(proxy: str) -> None:
    assert [where for where, _ in mistakes(trusted_proxies=("10.0.0.7", proxy))] == [("trusted_proxies", 1)]


def test_what_keys_and_tokens_make_impossible() -> None:
    store = SqlSessionStore("sqlite://")
    keeper, _ = access_control("shop", GatewayConfig(auth=KEYS), store)
    assert keeper is not None
    for auth in (AuthConfig(keys=False), AuthConfig(jwt=JwtConfig(algorithms=("HS256",), key="short"))):
        with pytest.raises(ConfigError):
            access_control("shop", GatewayConfig(auth=auth), store)


def test_a_store_that_keeps_neither_keys_nor_counters() -> None:
    access_control("shop", GatewayConfig(), object())
    for config in (GatewayConfig(auth=KEYS), GatewayConfig(limits=CallerLimits(shared=True))):
        with pytest.raises(ConfigError, match="session store"):
            access_control("shop", config, object())


def test_the_folder_of_a_web_page_is_there(tmp_path: Path) -> None:
    """It is looked for beside the file, and only where the page is wanted."""
    section = "  protocols:\n    adk: {web: page}\n"
    _, problems = read(tmp_path, section)
    assert [problem.partition(":")[0] for problem in problems] == ["5"]
    assert "index.html" in problems[0]
    assert read(tmp_path, "  protocols:\n    adk: {on: false, web: page}\n")[1] == []
    (tmp_path / "page").mkdir()
    assert len(read(tmp_path, section)[1]) == 1
    (tmp_path / "page" / "index.html").write_text("<html></html>")
    config, problems = read(tmp_path, section)
    assert problems == []
    assert (config.protocols.adk.on, config.protocols.adk.web) == (True, str(tmp_path / "page"))


def test_protocols_whose_extra_is_missing() -> None:
    def lacked(*there: str, wanted: bool, **said: Any) -> list[str]:
        return [*protocols_without_extra(Protocols(**said), wanted=wanted, is_there=lambda extra: extra in there)]

    assert lacked("a2a", "mcp", wanted=False) == []
    assert lacked("mcp", wanted=False) == ["a2a"]
    assert lacked(wanted=False, a2a=A2aConfig(on=False)) == ["mcp"]
    assert lacked(wanted=True) == []
    assert lacked(wanted=True, mcp=McpConfig(agents=True)) == ["mcp"]
    assert lacked("mcp", wanted=True, mcp=McpConfig(on=True)) == []


@pytest.mark.parametrize(
    ("given", "on"),
    [("", None), ("a2a: true", True), ("a2a: false", False), ("a2a: {}", None), ("a2a: {version: '2'}", True)],
)
def test_a_protocol_is_switched_in_one_word(tmp_path: Path, given: str, on: bool | None) -> None:
    config, problems = read(tmp_path, f"  protocols: {{{given}}}\n")
    assert (config.protocols.a2a.on, problems) == (on, [])


def test_a_mistake_in_a_protocol_has_its_line(tmp_path: Path) -> None:
    _, problems = read(tmp_path, "  protocols:\n    a2a: {vrsion: '2'}\n    mcp: 5\n")
    assert [problem.partition(":")[0] for problem in problems] == ["5", "6"]
    assert "Did you mean 'version'?" in problems[0]
