"""The command line: recorded decisions made again."""

import json
from pathlib import Path

from cli_play import turnwise


def test_a_replay_shows_what_another_policy_changes(shop: Path) -> None:
    """E2, H1: nothing changes under the same policy, and a bound fails the command."""
    lines = [{"user": user, "session": "one", "message": text} for user in ("ann", "bob") for text in ("Hi", "What is it?")]
    given = "".join(json.dumps(line) + "\n" for line in lines)
    assert turnwise("run", stdin=given, cwd=shop).returncode == 0

    same = turnwise("replay", "--max", "changed=0", cwd=shop)
    assert (same.returncode, same.stderr) == (0, "")
    assert "0 of 4 decisions change" in same.stdout
    decision = json.loads(turnwise("decisions", "list", "--json", cwd=shop).stdout)["decisions"][0]["selection"]
    recorded = json.loads(turnwise("replay", "--policy", decision["fingerprint"], "--json", cwd=shop).stdout)
    assert (recorded["changed"], recorded["other_inputs"], recorded["fingerprint"]) == (0, 0, decision["fingerprint"])

    (shop / "hours.yaml").write_text("name: hours\nstages: [default]\ndefault: hours\n")
    options = ("--policy", "hours.yaml", "--user", "bob", "--report", "report.html", "--max", "changed_share=0.5")
    other = turnwise("replay", *options, cwd=shop)
    assert other.returncode == 1
    assert "2 of 2 decisions change" in other.stdout
    assert "error[replay.missed]: changed_share is 1" in other.stderr
    assert "<script" not in (shop / "report.html").read_text()


def test_mistakes_are_named(shop: Path) -> None:
    for options in (
        ("--policy", "nobody"),
        ("--session", "one"),
        ("--min", "ece=1"),
        ("--max", "changed=many"),
        ("--report", "no/such/folder.html"),
        ("--agents", "missing.jsonl"),
        ("--since", "yesterday"),
        ("-n", "0"),
    ):
        refused = turnwise("replay", *options, cwd=shop)
        assert refused.returncode in (1, 2), options
        assert refused.stderr.startswith("error["), (options, refused.stderr)
        assert "Traceback" not in refused.stderr
