from collections import deque
from typing import Any

import pytest

from turnwise.facts.errors import ConfigError
from turnwise.tools.mcp_connection import Address, Program, ServerSignals, transport_for, without_secrets


def way(**settings: Any) -> Any:
    given: dict[str, Any] = {"command": None, "args": (), "env": {}, "cwd": None, "url": None, "headers": {}}
    return transport_for(**{**given, **settings})


def test_a_command_or_a_url() -> None:
    assert isinstance(way(command="/opt/bin/files", args=("--fast",)), Program)
    assert isinstance(way(url="https://tools.example/mcp"), Address)
    assert way(command="/opt/bin/files").name == "files"
    assert way(url="https://ada:secret@tools.example:8/mcp?key=secret").name == "tools.example"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"command": "a", "url": "https://b"},
        {"command": ""},
        {"command": "a", "headers": {"A": "b"}},
        {"url": "https://b", "args": ("x",)},
        {"url": "https://b", "env": {"A": "b"}},
        {"url": "ftp://secret"},
        {"url": "https://"},
        {"url": "https://host:port-secret/"},
        {"url": "http://[secret"},
        {"url": "https://b", "headers": {"Authorization": "Bearer secret\n"}},
        {"url": "https://b", "headers": {"Authorization": "Bearer sëcret"}},
    ],
)
def test_settings_that_do_not_fit_are_refused_without_their_secrets(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as refused:
        way(**settings)
    assert "secret" not in str(refused.value)


def test_secrets_are_taken_out_of_texts() -> None:
    address = way(url="https://ada:pass-word@h/mcp?key=query-key", headers={"Authorization": "Bearer token-1", "X": "1"})
    told = without_secrets("1: token-1 and pass-word at ?key=query-key", address.secrets)
    assert told == "1: — and — at ?—"
    assert without_secrets("the key-abc", way(command="a", env={"KEY": "key-abc"}).secrets) == "the —"


def test_what_is_seen_is_said() -> None:
    gone: list[bool] = []
    seen = ServerSignals(lambda: gone.append(True))
    assert seen.details() == ""
    seen.answer(401, in_session=False)
    assert seen.details() == " (HTTP 401)"
    seen.answer(200, in_session=False)
    seen.answer(404, in_session=False)
    assert not seen.forgotten
    seen.answer(404, in_session=True)
    assert (seen.forgotten, gone) == (True, [True])
    seen.lines = deque(["first", "last"])
    assert seen.details() == " (HTTP 404); the last that it wrote was: last"
