"""When a flow of a configuration file ends."""

from pathlib import Path

import pytest
from config_play import line_only

from turnwise.config.agent_section import FlowSection
from turnwise.config.document import read_document
from turnwise.config.entries import report_unknown_tasks
from turnwise.config.flow_entries import build_until
from turnwise.config.validation import validated
from turnwise.flows.until import Until


def read(folder: Path, text: str) -> tuple[Until | None, list[str]]:
    (folder / "t.yaml").write_text(f"until: {text}\nname: f\nkind: flow\ntasks: [{{name: a}}, {{name: b}}]\n")
    document = read_document(folder / "t.yaml", {})
    valid = validated(document, FlowSection)
    assert valid is not None
    holder, document = valid
    report_unknown_tasks(document, (), valid[0])
    found = None if document.problems else build_until(holder.until)
    return found, [line_only(error).removeprefix(f"{folder}/t.yaml:") for error in document.problems]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("all_complete", "AllComplete()"),
        ("any_failed", "AnyFailed()"),
        ("{any_complete: [a, b]}", "AnyComplete('a', 'b')"),
        ("{any_failed: a}", "AnyFailed('a')"),
        ("{max_turns: 3, max_model_calls: 4}", "(MaxTurns(3) | MaxModelCalls(4))"),
        ("[any_failed, {max_turns: 3}]", "(AnyFailed() | MaxTurns(3))"),
        ("{all: [any_failed, {max_turns: 3}]}", "(AnyFailed() & MaxTurns(3))"),
        ("{any: [any_complete], all: [{any_complete: a}, any_failed]}", "(AnyComplete() | (AnyComplete('a') & AnyFailed()))"),
    ],
)  # fmt: skip
def test_conditions_and_how_they_compose(tmp_path: Path, text: str, meant: str) -> None:
    """D11."""
    found, problems = read(tmp_path, text)
    assert (repr(found), problems) == (meant, [])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("any_faild", "1: There is no condition 'any_faild'. Did you mean 'any_failed'?"),
        ("{max_turn: 1}", "1: A condition has no key 'max_turn'. Did you mean 'max_turns'?"),
        ("{max_turns: 0}", "1: 'max_turns' should be greater than or equal to 1."),
        ("{max_turns: true}", "1: 'max_turns' should be a whole number, but is true or false."),
        ("{any_failed: 3}", "1: 'any_failed' should be a list, but is a number."),
        ("{any_failed: [a, c]}", "1: There is no task 'c' to wait for. Known: a, b."),
        ("\n  any:\n    - any_failed\n    - 3", "4: A condition is a name, or keys and values; this is a number."),
        ("{all: any_failed}", "1: 'all' should be a list, but is text. Write `- ` before each item."),
        ("{}", "1: A condition is a name, or keys and values; this is nothing."),
        ("[]", "1: 'until' is empty."),
    ],
)
def test_mistakes_are_told_with_their_place(tmp_path: Path, text: str, problem: str) -> None:
    found, problems = read(tmp_path, text)
    assert found is None
    assert len(problems) == 1
    assert problems[0].startswith(problem)
