"""The command line: experiments are shown and ended."""

import json
from pathlib import Path

from cli_play import turnwise

EXPERIMENT = """
policies:
  direct: {stages: [direct, default]}
experiments:
  name: plain
  arms: {today: {}, direct: {policy: direct}}
  stop: {least_units: 10}
"""


def test_an_experiment_is_shown_and_rolled_back(shop: Path) -> None:
    """H7"""
    assert turnwise("experiments", "list", cwd=shop).stderr.startswith("No experiment of shop has started.")
    with (shop / "turnwise.yaml").open("a") as file:
        file.write(EXPERIMENT)
    # Of sessions that begin at once with the experiment, some may begin before it.
    assert turnwise("chat", "-s", "first", stdin="What is it?\n", cwd=shop).returncode == 0
    lines = [{"user": "ann", "session": str(number), "message": "What is it?"} for number in range(12)]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    ran = turnwise("run", stdin=given, cwd=shop)
    assert ran.returncode == 0, ran.stderr
    listed = turnwise("experiments", "list", cwd=shop)
    assert "plain" in listed.stdout
    assert "running" in listed.stdout
    shown = turnwise("experiments", "show", "plain", "--report", "page.html", cwd=shop)
    assert shown.returncode == 0, shown.stderr
    assert "on the same messages: today and direct decide" in shown.stdout
    assert "fewer than 10 ripe units in an arm" in shown.stdout
    assert "no winner yet" in shown.stdout
    assert "<script" not in (shop / "page.html").read_text()
    decision = turnwise("decisions", "show", "0", "1", "--user", "ann", cwd=shop)
    assert "experiment plain, arm " in decision.stdout
    assert "The shadow " in decision.stdout
    ended = turnwise("experiments", "rollback", "plain", "--reason", "Users complain.", cwd=shop)
    assert ended.stdout == "The experiment plain is rolled back.\n"
    again = turnwise("experiments", "promote", "plain", "direct", cwd=shop)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith("error[session.stale")
    missing = turnwise("experiments", "show", "nothing", cwd=shop)
    assert (missing.returncode, "Experiments: plain." in missing.stderr) == (1, True)
