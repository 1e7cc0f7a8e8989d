"""The command line: decisions searched and shown."""

import json
from pathlib import Path

from cli_play import turnwise


def test_decisions_are_listed_and_shown(shop: Path) -> None:
    """E1: across sessions, newest first, by filters, with the stages of the policy."""
    for session, user, text in (("one", "ann", "Where is it?"), ("two", "bob", "It is HERE"), ("one", "ann", "thanks")):
        given = json.dumps({"user": user, "session": session, "message": text}) + "\n"
        assert turnwise("run", stdin=given, cwd=shop).returncode == 0

    def texts(*options: str) -> list[str]:
        page = json.loads(turnwise("decisions", "list", "--json", *options, cwd=shop).stdout)
        return [each["text"] for each in page["decisions"]]

    assert texts() == ["thanks", "It is HERE", "Where is it?"]
    assert texts("--words", "here IT") == texts("--user", "bob") == ["It is HERE"]
    assert texts("--session", "one", "--user", "ann", "-n", "1") == ["thanks"]
    for none in (("--since", "2040-01-01"), ("--outcome", "clarify"), ("--labelled",), ("--contradicted",)):
        assert texts(*none) == [], none
    assert texts("--min-confidence", "0", "--max-confidence", "1", "--unlabelled", "--policy", "default") == texts()
    page = json.loads(turnwise("decisions", "list", "-n", "2", "--json", cwd=shop).stdout)
    assert texts("--after", page["next"]) == ["Where is it?"]
    table = turnwise("decisions", "list", "-n", "1", cwd=shop)
    assert "thanks" in table.stdout
    assert "--after" in table.stderr
    assert "No decision of" in turnwise("decisions", "list", "--agent", "nobody", cwd=shop).stderr
    shown = turnwise("decisions", "show", "one", "1", "--user", "ann", cwd=shop).stdout
    assert "Where is it?" in shown
    assert "stages in order:" in shown
    data = json.loads(turnwise("decisions", "show", "one", "1", "--user", "ann", "--json", cwd=shop).stdout)
    assert data["policy"]["fingerprint"] == data["selection"]["fingerprint"]
    assert [stage["name"] for stage in data["policy"]["segments"][-1]["stages"]]
    for arguments in (("list", "--outcome", "lost"), ("show", "one", "2", "--user", "ann"), ("list", "--after", "x")):
        refused = turnwise("decisions", *arguments, cwd=shop)
        assert refused.returncode in (1, 2, 3), arguments
        assert refused.stderr.startswith("error["), arguments
