"""What the tests of configuration files share: a module of code beside the file."""

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_numbers = itertools.count()


@contextmanager
def module_in(folder: Path, code: str) -> Iterator[str]:
    """Writes a module; its name, which no other has had. In the end it is as if it had never been imported."""
    name = f"tw_module_{next(_numbers)}"
    (folder / f"{name}.py").write_text(code)
    before = list(sys.path)
    try:
        yield name
    finally:
        sys.path[:] = before
        sys.modules.pop(name, None)
