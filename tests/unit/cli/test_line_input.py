"""Lines of an input, read beside the event loop."""

import os
import sys
from pathlib import Path

import pytest

from turnwise.cli import line_input as module
from turnwise.cli.line_input import InputError, InputLines


async def read(lines: InputLines) -> list[tuple[int, bytes]]:
    return [line async for line in lines.read()]


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", []),
        (b"a", [(1, b"a")]),
        (b"a\n", [(1, b"a")]),
        (b"a\n\nb", [(1, b"a"), (2, b""), (3, b"b")]),
        (b"\n", [(1, b"")]),
        (b"x" * 200_000 + b"\ny", [(1, b"x" * 200_000), (2, b"y")]),
    ],
)
async def test_lines_of_a_file(tmp_path: Path, data: bytes, found: list[tuple[int, bytes]]) -> None:
    (tmp_path / "f").write_bytes(data)
    lines = InputLines(tmp_path / "f")
    assert await read(lines) == found
    assert lines.count() == len(found)


async def test_more_lines_than_are_read_ahead(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(100_000))
    (tmp_path / "f").write_text(text)
    found = await read(InputLines(tmp_path / "f"))
    assert len(found) == 100_000
    assert found[-1] == (100_000, b"line 99999")


async def test_lines_of_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo")
    os.close(writing)
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert await read(InputLines(None)) == [(1, b"one"), (2, b"two")]


async def test_lines_of_a_descriptor_that_stays_open() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"one\ntwo")
    os.close(writing)
    assert await read(InputLines(reading)) == [(1, b"one"), (2, b"two")]
    os.close(reading)


async def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE_BYTES", 100_000)
    for end in (b"", b"\n"):
        (tmp_path / "f").write_bytes(b"short\n" + b"x" * 100_001 + end)
        with pytest.raises(InputError, match="Line 2 is longer"):
            await read(InputLines(tmp_path / "f"))


async def test_an_input_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        await read(InputLines(tmp_path / "none"))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="no standard input"):
        await read(InputLines(None))
