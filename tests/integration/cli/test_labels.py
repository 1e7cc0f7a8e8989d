"""The command line: labels, signals, the review queue and the export."""

import json
from pathlib import Path
from typing import Any

from cli_play import turnwise


def data(folder: Path, *command: str) -> Any:
    said = turnwise(*command, "--json", cwd=folder)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def test_from_a_message_to_a_case(shop: Path) -> None:
    """H2, C16: signals, the review queue, a label, and the export that eval reads."""
    lines = [{"user": "local", "session": "one", "message": text} for text in ("What is it?", "Thanks!", "Hi")]
    assert turnwise("run", stdin="".join(json.dumps(line) + "\n" for line in lines), cwd=shop).returncode == 0

    told = turnwise("decisions", "signals", cwd=shop)
    assert (told.returncode, told.stderr) == (0, "")
    assert "labels by signals" in told.stdout
    assert data(shop, "decisions", "signals")["changed"] == 0

    queue = data(shop, "decisions", "review", "--random", "1")["queue"]
    assert {each["probability"] for each in queue} == {1.0}
    assert "random 1" in turnwise("decisions", "review", "--random", "1", cwd=shop).stdout

    options = ("--picked", "random", "--probability", "1", "--note", "clear")
    said = turnwise("decisions", "label", "one", "1", "hours", *options, cwd=shop)
    assert said.stdout == "Decision #1 of session one is labelled hours.\n"
    assert data(shop, "decisions", "list", "--labelled", "--label", "hours")["decisions"][0]["sequence"] == 1

    exported = turnwise("decisions", "export", "-o", "cases.jsonl", cwd=shop)
    assert (exported.returncode, exported.stdout) == (0, "")
    assert "1 dialogues with" in exported.stderr
    assert turnwise("decisions", "export", cwd=shop).stdout == (shop / "cases.jsonl").read_text()
    assert json.loads((shop / "cases.jsonl").read_text())["turns"][0] == {"system": "", "user": "What is it?", "agent": "hours"}
    assert turnwise("eval", "cases.jsonl", cwd=shop).returncode == 0
    no_file = turnwise("decisions", "export", "--format", "parquet", cwd=shop)
    assert (no_file.returncode, "pass --output FILE" in no_file.stderr) == (2, True)

    nobody = turnwise("decisions", "label", "one", "1", "--nobody", cwd=shop)
    assert nobody.stdout == "Decision #1 of session one is labelled nobody.\n"
    removed = turnwise("decisions", "label", "one", "1", "--remove", cwd=shop)
    assert removed.stdout == "Decision #1 of session one has no label of an operator now.\n"


def test_mistakes_are_named(shop: Path) -> None:
    turnwise("run", stdin=json.dumps({"user": "local", "session": "one", "message": "Hi"}), cwd=shop)
    for command in (
        ("label", "one", "1"),
        ("label", "one", "1", "hours", "--nobody"),
        ("label", "one", "1", "nobody"),
        ("label", "one", "99", "hours"),
        ("label", "none", "1", "hours"),
        ("label", "one", "1", "hours", "--probability", "0"),
        ("label", "one", "1", "hours", "--note", "x" * 5_000),
        ("export", "-o", "no/such/folder.jsonl"),
        ("review", "--random", "2"),
        ("signals", "--since", "yesterday"),
    ):
        refused = turnwise("decisions", *command, cwd=shop)
        assert refused.returncode in (1, 2), command
        assert refused.stderr.startswith("error["), (command, refused.stderr)
        assert "Traceback" not in refused.stderr
