"""Mistakes in a runner's arguments are named when it is made, and those of a message when it is sent."""

from pathlib import Path
from typing import Any

import pytest

from turnwise import Runner, agent
from turnwise.facts.errors import ConfigError, MessageError
from turnwise.guardrails.secrets import Secrets
from turnwise.runner.admission import check_part, checked_parts


@agent
def clerk(message: str) -> str:
    return f"clerk got {message}"


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("app", 3, "`app`: int 3"),
        ("app", "", "`app`: str ''"),
        ("policy", {"stages": []}, "`policy`: dict {'stages': []}"),
        ("custom_selectors", [1], "`custom_selectors`: list [1]"),
        ("config", {"streaming": True}, "Pass RunConfig(…)"),
        ("process", {"concurrency": 1}, "Pass ProcessConfig(…)"),
        ("keep", 3, "the path of a folder"),
        ("artifacts", "folder", "`artifacts`: str 'folder'"),
        ("encoder", "minilm", "`encoder`: str 'minilm'"),
        ("issuer", object, "`issuer`: the class object"),
        ("hooks", object(), "Pass a list of hooks"),
        ("hooks", [object()], "has no method `selected`"),
        ("guardrails", Secrets(), "Pass a list of guardrails"),
        ("guardrails", [Secrets], "`guardrails[0]`: the class Secrets"),
        ("store", None, "session store: NoneType"),
    ],
)
def test_a_wrong_argument_is_named_with_what_to_pass(name: str, value: Any, told: str) -> None:
    with pytest.raises(ConfigError) as problem:
        Runner(clerk, **{name: value})
    assert told in str(problem.value)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("user", 3, "The user id is a int."),
        ("session", 3, "The session id is a int."),
        ("message_id", 3, "The message id is a int."),
        ("context", {"roles": ["a"]}, "The message's context is a dict."),
    ],
)
def test_a_wrong_argument_of_a_message_is_named(name: str, value: Any, told: str) -> None:
    with pytest.raises(MessageError) as problem:
        Runner(clerk).run_sync("hi", **{name: value})
    assert told in str(problem.value)


def test_a_wrong_configuration_of_a_message_is_named() -> None:
    with pytest.raises(ConfigError, match="Pass RunConfig"):
        Runner(clerk).run_sync("hi", config={"streaming": True})


async def test_inside_a_loop_run_sync_says_what_to_write() -> None:
    """The lines that it tells are those of a notebook."""
    runner = Runner(clerk)
    with pytest.raises(ConfigError) as problem:
        runner.run_sync("hi")
    first, second = (line for line in str(problem.value).split("`") if "await" in line)
    names: dict[str, Any] = {"runner": runner}
    exec(f"async def cell():\n  {first}\n  {second}\n  return result", names)
    assert (await names["cell"]()).text == "clerk got hi"
    await runner.close()


def test_a_folder_may_be_named_as_text(tmp_path: Path) -> None:
    assert Runner(clerk, keep=str(tmp_path)).run_sync("hi").text == "clerk got hi"


def test_parts_may_be_absent() -> None:
    check_part("artifacts", None, ("save",), "a store")
    assert checked_parts("hooks", (), ("selected",), "hooks") == ()
