"""The notebook prints what it shows, cell by cell, also inside a running event loop, as a kernel has one."""

import ast
import asyncio
import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "examples").rglob("*.ipynb"))


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_each_cell_prints_what_it_shows(file: Path) -> None:
    notebook = json.loads(file.read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    namespace: dict[str, Any] = {"__name__": "__main__"}

    async def kernel() -> None:
        for number, cell in enumerate(cells):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                code = compile("".join(cell["source"]), f"{file.name}:{number}", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                if (awaited := eval(code, namespace)) is not None:
                    await awaited
            shown = "".join("".join(output["text"]) for output in cell["outputs"])
            assert printed.getvalue() == shown, number

    asyncio.run(kernel())
    assert any(cell["outputs"] for cell in cells)
