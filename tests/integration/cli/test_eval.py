"""`turnwise eval`, in real processes (behaviour E3)."""

import json
from pathlib import Path
from typing import Any

import pytest
from cli_play import turnwise

PATTERNS = "name: by-pattern\nstages:\n  - {selector: patterns, options: {margin: 0.1}}\n  - resume\n"
CASES: list[dict[str, Any]] = [
    {"text": "track my parcel", "agent": "orders"},
    {"text": "I want a refund", "agent": "returns"},
    {"text": "sing me a song", "agent": None},
    {"text": "do my taxes", "agent": "taxes"},
    {
        "id": "d",
        "turns": [
            {"system": "", "user": "where is my order?", "agent": "orders"},
            {"system": "Which one?", "user": "1001", "agent": "orders"},
            {"system": "It is on its way.", "user": "are you open?", "agent": "hours"},
        ],
    },
]


@pytest.fixture
def cases(shop: Path) -> Path:
    (shop / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in CASES))
    (shop / "policy.yaml").write_text(PATTERNS)
    return shop


def test_the_configured_agents_are_measured(cases: Path) -> None:
    """E3: on standard output a table; agents that do not exist are named; times aside, the same twice."""
    said = turnwise("eval", "cases.jsonl", "--policy", "policy.yaml", cwd=cases)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("85.7 % of 7 cases reached the right agent\n3 agents, 20 examples · policy by-pattern (")
    assert "cases that name unknown agents count as wrong: taxes (1)" in said.stdout
    for line in (
        "where the agent changes  100.0 %",
        "strong_intent_match      4  100.0 %",
        "taxes       nobody       1  do my taxes",
    ):
        assert line in said.stdout


def test_at_a_terminal_there_is_a_bar(cases: Path, terminal: Any) -> None:
    """E3: long evaluations show how far they are; it is gone when the figures come."""
    child = terminal("eval", "cases.jsonl", "--policy", "policy.yaml", cwd=cases)
    child.expect("of 7 cases reached the right agent")
    assert "deciding" in child.before
    child.expect("do my taxes")


def test_figures_are_kept_without_the_texts_of_the_cases(cases: Path) -> None:
    """E3, H1"""
    said = turnwise("eval", "cases.jsonl", "--policy", "policy.yaml", "--store", "--json", cwd=cases)
    assert (said.returncode, said.stderr) == (0, "")
    (entry,) = json.loads(turnwise("audit", "list", "--json", cwd=cases).stdout)["entries"]
    assert (entry["action"], entry["actor"], entry["details"]["files"]) == ("evaluation.stored", "cli", ["cases.jsonl"])
    figures = json.loads(said.stdout)
    for name in ("cases", "accuracy", "policy", "fingerprint", "agents", "examples"):
        assert entry["details"][name] == pytest.approx(figures[name]), name
    assert {"expected": "taxes", "chosen": None, "count": 1} in entry["details"]["confusions"]
    assert "do my taxes" not in json.dumps(entry)


def test_json_is_all_there_is_on_standard_output(cases: Path) -> None:
    """E3: and a report beside it, told on standard error."""
    arguments = ("--policy", "policy.yaml", "--json", "--report", "report.html", "--history", "true")
    said = turnwise("eval", "cases.jsonl", *arguments, cwd=cases)
    assert (said.returncode, said.stderr) == (0, "report: report.html\n")
    data = json.loads(said.stdout)
    assert (data["cases"], data["accuracy"], data["history"]) == (7, pytest.approx(6 / 7), "true")
    assert data["nobody"] == {"auroc": pytest.approx(5 / 6 + 1 / 12), "f1": pytest.approx(2 / 3), "recall": 1.0}
    assert data["unknown"] == {"taxes": 1}
    assert data["confusions"] == [{"expected": "taxes", "chosen": None, "count": 1, "example": "do my taxes"}]
    assert (cases / "report.html").read_text().startswith("<!doctype html>")


def test_figures_may_be_grouped_by_keys_of_the_cases(cases: Path) -> None:
    """E3: of a turn, or else of its dialogue; as a table, as JSON, and in the report."""
    turns = [{**turn, "part": name} for turn, name in zip(CASES[4]["turns"], ("open", "go", "go"), strict=True)]
    lines = [{"text": "do my taxes", "agent": "taxes", "part": "open"}, {"id": "d", "kind": {"long": True}, "turns": turns}]
    (cases / "by.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = ("eval", "by.jsonl", "--policy", "policy.yaml", "--by", "part", "--by", "kind.long")
    said = turnwise(*arguments, "--json", "--report", "report.html", cwd=cases)
    assert (said.returncode, said.stderr) == (0, "report: report.html\n")
    assert json.loads(said.stdout)["by"] == {
        "part": {
            "open": {"cases": 2, "accuracy": 0.5, "after_error": None},
            "go": {"cases": 2, "accuracy": 1.0, "after_error": None},
        },
        "kind.long": {"true": {"cases": 3, "accuracy": 1.0, "after_error": None}},
    }
    assert "By kind.long" in (cases / "report.html").read_text()
    table = turnwise(*arguments, cwd=cases).stdout
    assert "kind.long  cases    right  after a wrong choice" in table
    assert "true           3  100.0 %                     –" in table


def test_a_figure_that_is_missed_fails(cases: Path) -> None:
    """E3: each is told; the figures are printed all the same."""
    gates = ("--min", "accuracy=0.8", "--min", "nobody.f1=0.9", "--max", "ece=0")
    said = turnwise("eval", "cases.jsonl", "--policy", "policy.yaml", "--json", *gates, cwd=cases)
    assert said.returncode == 1
    assert said.stderr.splitlines()[0] == "error[eval.missed]: nobody.f1 is 0.6667, it should be at least 0.9."
    assert said.stderr.splitlines()[1].startswith("error[eval.missed]: ece is 0.")
    assert json.loads(said.stdout)["cases"] == 7
    assert turnwise("eval", "cases.jsonl", "--policy", "policy.yaml", "--min", "accuracy=0.8", cwd=cases).returncode == 0


def test_agents_may_come_from_examples(cases: Path) -> None:
    """E3: then no configuration is needed; validation cases are tuned on, and what was tuned is told."""
    examples = [{"text": "play a song", "agent": "music"}, {"agent": "taxes", "description": "Does taxes."}]
    (cases / "turnwise.yaml").unlink()
    (cases / "examples.jsonl").write_text("".join(json.dumps(line) + "\n" for line in examples))
    arguments = ("--examples", "examples.jsonl", "--policy", "policy.yaml", "--validation", "cases.jsonl", "--json")
    said = turnwise("eval", "cases.jsonl", *arguments, cwd=cases)
    assert (said.returncode, said.stderr) == (0, "")
    data = json.loads(said.stdout)
    assert (data["agents"], data["examples"], data["policy"]) == (2, 1, "by-pattern")
    assert data["tuned"] == {"accuracy_before": pytest.approx(1 / 7), "accuracy_after": pytest.approx(1 / 7)}
    assert set(data["unknown"]) == {"orders", "returns", "hours"}


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        ((), 2, "Missing argument 'CASES…'"),
        (("none.jsonl",), 2, "error[config.case]: none.jsonl cannot be read: No such file or directory."),
        (("bad.jsonl",), 2, "error[config.case]: bad.jsonl:2: this is not valid JSON"),
        (("cases.jsonl", "--validation", "bad.jsonl"), 2, "error[config.case]: bad.jsonl:2: this is not valid JSON"),
        (("cases.jsonl", "--examples", "bad.jsonl"), 2, "error[config.case]: bad.jsonl:2: this is not valid JSON"),
        (("cases.jsonl", "--policy", "nope"), 2, "error[usage]: There is no policy, and no file, named 'nope'."),
        (("cases.jsonl", "--policy", "bad.yaml"), 2, "error[config.policy]: bad.yaml:3:1: 'segments' should be a list"),
        (("cases.jsonl", "--min", "acuracy=1"), 2, "error[usage]: Invalid value for '--min': There is no figure 'acuracy'."),
        (("cases.jsonl", "--report", "no/where.html"), 2, "error[usage]: Invalid value for '--report': no/where.html cannot"),
        (("cases.jsonl", "--by", "part"), 2, "error[config.case]: No case has a text, a number or a truth value under the key"),
        (("cases.jsonl", "--by", ""), 2, "error[usage]: Invalid value for '--by': At most 8 keys, each of 1 to 100 characters"),
        (
            ("cases.jsonl", "--out-of-scope", "0.2"),
            2,
            "error[usage]: Invalid value for '--out-of-scope': It is used for tuning only",
        ),
        (
            ("cases.jsonl", "--validation", "cases.jsonl", "--out-of-scope", "nan"),
            2,
            "error[usage]: Invalid value for '--out-of",
        ),
        (("cases.jsonl", "--validation", "cases.jsonl", "--out-of-scope", "1"), 2, "error[usage]: Invalid value for '--out-of"),
        (("cases.jsonl", "--history", "both"), 2, "error[usage]: Invalid value for '--history'"),
    ],
)
def test_mistakes_are_told_before_anything_is_measured(
    cases: Path, arguments: tuple[str, ...], code: int, problem: str
) -> None:
    """E3: file and line; nothing half done."""
    (cases / "bad.jsonl").write_text('{"text": "x", "agent": "orders"}\n{"text"\n')
    (cases / "bad.yaml").write_text("name: x\nstages: [nope]\nsegments: 5\n")
    said = turnwise("eval", *arguments, cwd=cases)
    assert (said.returncode, said.stdout) == (code, "")
    assert problem in said.stderr
