"""Commands to go on with."""

import shlex
from pathlib import Path

from turnwise.cli.options import DEFAULT_USER, RunLocation


def test_commands_say_what_was_said_and_no_more() -> None:
    plain = RunLocation(None, DEFAULT_USER, "s")
    assert plain.resume == "turnwise flow resume --session s"
    assert plain.run("report") == "turnwise flow run report --session s"
    assert plain.sessions == "turnwise sessions list"
    other = RunLocation(Path("press.yaml"), "ann", "s")
    assert other.resume == "turnwise flow resume --session s --user ann --config press.yaml"
    assert other.sessions == "turnwise sessions list --user ann --config press.yaml"


def test_whatever_a_name_holds_a_shell_takes_it_as_it_is() -> None:
    odd = RunLocation(Path("my press.yaml"), "ann; rm", "$HOME `s`")
    assert shlex.split(odd.run("it's")) == [
        "turnwise", "flow", "run", "it's", "--session", "$HOME `s`", "--user", "ann; rm", "--config", "my press.yaml",
    ]  # fmt: skip
