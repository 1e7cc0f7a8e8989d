"""Reading YAML with lines: what is accepted, and every way in which it can be no configuration."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from config_play import line_only

from turnwise.config.document import FILE_BYTES, Document, read_document
from turnwise.facts.errors import ConfigError

Read = Callable[..., Document]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    monkeypatch.chdir(tmp_path)

    def reading(text: str | bytes, variables: Mapping[str, str] | None = None) -> Document:
        path = tmp_path / "turnwise.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_document(path, variables or {})

    return reading


def refused(read: Read, text: str | bytes) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(text)
    return caught.value


def test_plain_values_keep_their_types(read: Read) -> None:
    data = read("a: 1\nb: 1.5\nc: yes\nd: null\ne: 'yes'\nf: [x, 2]\ng: {h: i}\nj: 2024-01-01\nk: !!str 3\n").data
    assert data == {
        "a": 1, "b": 1.5, "c": True, "d": None, "e": "yes", "f": ["x", 2], "g": {"h": "i"}, "j": "2024-01-01", "k": "3",
    }  # fmt: skip


def test_every_key_and_item_has_its_line(read: Read) -> None:
    document = read("# first\na:\n  b: 1\n  c:\n    - x\n    - d: y\n")
    places = [("a",), ("a", "b"), ("a", "c", 0), ("a", "c", 1, "d"), ("a", "c", 1, "unknown", 3), ()]
    assert [document.mark(where) for where in places] == [(2, 1), (3, 3), (5, 7), (6, 7), (6, 7), (2, 1)]


def test_variables_are_filled_in_and_plain_ones_keep_their_type(read: Read) -> None:
    text = "a: ${N}\nb: '${N}'\nc: x${N}\nd: ${M:-true}\n- "
    document = read(text.removesuffix("- "), {"N": "3"})
    assert document.data == {"a": 3, "b": "3", "c": "x3", "d": True}
    assert not document.problems


def test_a_missing_variable_names_file_line_and_fix(read: Read) -> None:
    (problem,) = read("app: x\nstore: ${DATABASE}\n").problems
    assert str(problem) == (
        "turnwise.yaml:2:8: The environment variable DATABASE is not set. Set it, or write a default: ${DATABASE:-…}."
    )


def test_a_malformed_reference_is_named(read: Read) -> None:
    (problem,) = read("app: 'a ${b c}'\n").problems
    assert "turnwise.yaml:1:6: '${b c}' is not a reference" in str(problem)


def test_a_second_key_names_the_first(read: Read) -> None:
    (problem,) = read("app: x\nroot: y\napp: z\n").problems
    assert "turnwise.yaml:3:1: The key 'app' is here a second time; the first is in line 1." in str(problem)


def test_problems_are_told_from_top_to_bottom(read: Read) -> None:
    document = read("a: 1\nb: 2\nc: ${NO}\n")
    document.report(("b",), "second")
    document.report(("a",), "first")
    assert [line_only(error)[:22] for error in document.problems] == [
        "turnwise.yaml:1: first", "turnwise.yaml:2: secon", "turnwise.yaml:3: The e",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "cause"),
    [
        ("", 1, "is empty"),
        ("# nothing\n", 1, "is empty"),
        ("- a\n", 1, "a list at its top"),
        ("text\n", 1, "text at its top"),
        ("a: 1\n\tb: 2\n", 2, "not YAML"),
        ("a: b: c\n", 1, "not YAML"),
        ("a: 'x\n", 2, "not YAML"),
        ('a: "\\d"\n', 1, "not YAML"),
        ("a: 1\nb: [1, 2\n", 3, "not YAML"),
        ("a: 1\n---\nb: 2\n", 2, "second document"),
        ("a: 1\nb: *c\n", 2, "*c refers to nothing"),
        ("a: 1\nb: &b [*b]\n", 2, "*b refers to nothing"),
        ("a: 1\nb: !!python/object:os.system x\n", 2, "!!python/object:os.system is not allowed"),
        ("a: 1\nb: !own x\n", 2, "!own is not allowed"),
        ("a: 1\n? [b]\n: 2\n", 2, "not plain text"),
        ("a: 1\n<<: 3\n", 2, "needs keys and values"),
        ("a: 1\nb: \x07\n", 2, "not allowed in YAML"),
        (b"a: 1\nb: \xff\n", 2, "not UTF-8"),
        ("a: " + "[" * 100_000, 1, "levels are nested"),
    ],
)
def test_what_is_no_configuration_is_refused_with_its_line(read: Read, text: str | bytes, line: int, cause: str) -> None:
    error = refused(read, text)
    assert line_only(error).startswith(f"turnwise.yaml:{line}: ")
    assert cause in error.problem
    assert error.fix


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("a: 1\n\tb: 2\n", "spaces"),
        ("a:\n\tb: 2\n", "Indent with spaces"),
        ("a:\n  b: 1\n \t- c\n", "Indent with spaces"),
        ("\ta: 1\n", "Indent with spaces"),
        ("a:\n- \tb: 1\n \tc: 2\n", "Indent with spaces"),
        ("a: @b\n", "begins with @"),
        ('a: "\\d"\n', "single quotes"),
        ("a: b: c\n", "quote text that holds `: `"),
        ("a: {b: ${C}}\n", "put ${…} in quotes"),
    ],
)
def test_the_fix_fits_the_cause(read: Read, text: str, hint: str) -> None:
    assert hint in refused(read, text).fix


def test_aliases_and_merges_work(read: Read) -> None:
    document = read("a: &a {x: 1, y: 2}\nb: *a\nc:\n  <<: *a\n  y: 3\n  z: 4\nd:\n  <<: [*a, {w: 5, x: 6}]\n")
    assert document.data["b"] == {"x": 1, "y": 2}
    assert document.data["c"] == {"x": 1, "y": 3, "z": 4}
    assert document.data["d"] == {"x": 1, "y": 2, "w": 5}


def test_a_few_lines_of_aliases_cannot_fill_the_memory(read: Read) -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]" for old, new in zip("abcdefgh", "bcdefghi", strict=True)]
    error = refused(read, "\n".join(lines))
    assert "more than 500,000 values" in error.problem


def test_a_file_that_is_too_large_is_not_read(read: Read) -> None:
    assert "larger than 8 MB" in refused(read, b"a: " + b"x" * FILE_BYTES).problem


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_document(tmp_path / "none.yaml")
    with pytest.raises(ConfigError, match="is a folder"):
        read_document(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(read: Read) -> None:
    data: Any = read(b"\xef\xbb\xbfapp: x\n").data
    assert data == {"app": "x"}
