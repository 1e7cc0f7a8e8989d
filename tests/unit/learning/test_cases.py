"""Reading cases and examples (behaviour E3)."""

import json
from pathlib import Path
from typing import Any

import pytest

from turnwise.facts.errors import CaseError
from turnwise.learning.cases import Case, Turn, openings, read_cases, read_examples, unknown_agents


def written(folder: Path, *lines: Any, name: str = "cases.jsonl") -> Path:
    path = folder / name
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines), "utf-8")
    return path


def test_messages_and_dialogues_stand_together(tmp_path: Path) -> None:
    """E3: both kinds in one file and in several, in their order; blank lines and a byte order mark do not matter."""
    one = written(tmp_path, "\ufeff" + json.dumps({"text": "hi", "agent": "a"}), "", {"text": "bye", "agent": None, "more": 1})
    turns = [{"system": "", "user": "u1", "agent": "a"}, {"system": "s2", "user": "u2", "agent": None}]
    two = written(tmp_path, {"id": "d7", "turns": turns}, name="two.jsonl")
    cases = read_cases([one, two])
    assert [case.turns for case in cases] == [
        (Turn("", "hi", "a"),),
        (Turn("", "bye", None),),
        (Turn("", "u1", "a"), Turn("s2", "u2", None)),
    ]
    assert [case.dialogue for case in cases] == [None, None, "d7"]
    assert cases[1].place.endswith("cases.jsonl:3")


def test_further_agents_and_groups_are_read(tmp_path: Path) -> None:
    """E3: a turn's own key comes before its dialogue's; `also` may be empty, or not known."""
    turns = [
        {"user": "u1", "agent": "a", "also": ["b", "b", "c"], "kind": {"part": 1}},
        {"user": "u2", "agent": "a", "also": [], "kind": {"part": [1]}},
        {"user": "u3", "agent": "a", "also": None, "kind": "x"},
    ]
    path = written(tmp_path, {"id": "d", "kind": {"part": True}, "turns": turns}, {"text": "t", "agent": None})
    talk, alone = read_cases([path], ["kind.part"])
    assert [turn.also for turn in talk.turns] == [("b", "c"), (), None]
    assert [turn.groups for turn in talk.turns] == [{"kind.part": "1"}, {"kind.part": "true"}, {"kind.part": "true"}]
    assert alone.turns[0].groups == {}
    with pytest.raises(CaseError, match="under the key 'absent'"):
        read_cases([path], ["absent"])


def test_null_is_nobody_alone_and_unknown_in_a_dialogue() -> None:
    """E3"""
    alone, talk = Case((Turn("", "x", None),)), Case((Turn("", "x", None), Turn("", "y", "a")), "d")
    assert alone.scored(alone.turns[0])
    assert [talk.scored(turn) for turn in talk.turns] == [False, True]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not valid JSON"),
        ("[1]", "not a JSON object"),
        ({"text": "x"}, "'agent' is missing"),
        ({"agent": "a"}, "'text' is missing"),
        ({"text": 5, "agent": "a"}, "'text' is not text"),
        ({"text": "x", "agent": 5}, "not an agent's name"),
        ({"text": "x", "agent": ""}, "not an agent's name"),
        ({"text": "x", "agent": "\ud800"}, "not an agent's name"),
        ({"text": "x", "agent": "a", "also": "b"}, "'also' is not a list of agents' names"),
        ({"text": "x", "agent": "a", "also": [""]}, "'also' is not a list of agents' names"),
        ({"id": "d", "turns": []}, "not a list of turns"),
        ({"id": "d", "turns": [{"user": "x", "agent": "a"}, 4]}, "turn 2: this is not a JSON object"),
        ({"id": "d", "turns": [{"system": "x", "agent": "a"}]}, "turn 1: the key 'user' is missing"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: Any, said: str) -> None:
    """E3: file, line and cause; nothing half read."""
    path = written(tmp_path, {"text": "fine", "agent": "a"}, line)
    with pytest.raises(CaseError) as caught:
        read_cases([path])
    assert f"{path}:2" in caught.value.problem
    assert said in caught.value.problem
    assert caught.value.fix


def test_files_that_hold_nothing_or_no_text(tmp_path: Path) -> None:
    """E3"""
    with pytest.raises(CaseError, match="has no cases"):
        read_cases([written(tmp_path, "", "")])
    with pytest.raises(CaseError, match="cannot be read"):
        read_cases([tmp_path / "missing.jsonl"])
    latin = tmp_path / "latin.jsonl"
    latin.write_bytes(b'{"text": "caf\xe9", "agent": "a"}\n')
    with pytest.raises(CaseError, match=r"latin\.jsonl:1: this is not UTF-8"):
        read_cases([latin])


def test_examples_become_a_flat_tree_below_nobody(tmp_path: Path) -> None:
    """E3: in the order of their first line, texts once, null passed over; of a dialogue what opens or changes."""
    turns = [
        {"system": "", "user": "book a room", "agent": "hotels"},
        {"system": "When?", "user": "tomorrow", "agent": "hotels"},
        {"system": "Done.", "user": "and a cab", "agent": "cabs"},
    ]
    path = written(
        tmp_path,
        {"text": "play a song", "agent": "music"},
        {"text": "play a song", "agent": "music"},
        {"text": "blah", "agent": None},
        {"id": "d", "turns": turns},
        {"agent": "taxes", "description": "Files a tax return."},
        {"agent": "pets"},
    )
    tree = read_examples(path)
    assert [card.name for card in tree] == ["nobody", "music", "hotels", "cabs", "taxes", "pets"]
    assert tree.root == "nobody"
    assert [card.examples for card in tree][1:4] == [("play a song",), ("book a room",), ("and a cab",)]
    assert tree.card("taxes").description == "Files a tax return."
    assert tree.card("pets").description == "pets"


def test_an_agent_may_be_called_nobody(tmp_path: Path) -> None:
    """E3: the root gives way."""
    tree = read_examples(written(tmp_path, {"text": "x", "agent": "nobody"}))
    assert (tree.root, tree.children(tree.root)) == ("nobody*", ("nobody",))


def test_names_that_cannot_be_agents(tmp_path: Path) -> None:
    """E3"""
    with pytest.raises(CaseError, match=r"cases\.jsonl:1.*reserved"):
        read_examples(written(tmp_path, {"text": "x", "agent": "user"}))
    with pytest.raises(CaseError, match="names no agent"):
        read_examples(written(tmp_path, {"text": "x", "agent": None}))


def test_agents_that_only_cases_know_are_counted(tmp_path: Path) -> None:
    """E3: with how often they are named, so that a slip in a name is seen."""
    tree = read_examples(written(tmp_path, {"text": "x", "agent": "a"}))
    cases = [Case((Turn("", "1", "b"), Turn("", "2", "a"), Turn("", "3", None), Turn("", "4", "b")), "d")]
    assert unknown_agents(cases, tree) == {"b": 2}


def test_openings_begin_or_change() -> None:
    """E3: a turn of which nobody knows does not end what is going on."""
    turns = [("1", "a"), ("2", "a"), ("3", None), ("4", "a"), ("5", "b"), (" ", "c")]
    case = Case(tuple(Turn("", text, agent) for text, agent in turns), "d")
    assert [*openings(case)] == [("1", "a"), ("5", "b")]


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    """E3: valid JSON that is no text does not break what comes after."""
    (case,) = read_cases([written(tmp_path, '{"text": "a\\ud800b", "agent": null}')])
    assert case.turns[0].user == "a?b"
    turns = '"turns": [{"user": "x", "agent": "a"}]'
    (case,) = read_cases([written(tmp_path, '{"id": "d\\udfff", ' + turns + "}")])
    assert case.dialogue == "d?"
    tree = read_examples(written(tmp_path, '{"agent": "a", "description": "does\\udfff this"}'))
    assert tree.card("a").description == "does? this"
