"""Import paths, and the different ways in which they lead nowhere."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from turnwise.config.importing import resolve
from turnwise.facts.errors import ImportPathError


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with modules; what is imported from it is forgotten afterwards."""
    (tmp_path / "tw_good.py").write_text("class Shop:\n    desk = 'the desk'\nvalue = 3\n")
    (tmp_path / "tw_syntax.py").write_text("x = 1\ndef broken(:\n")
    (tmp_path / "tw_raises.py").write_text("import json\n\nraise ValueError('no luck')\n")
    (tmp_path / "tw_needs.py").write_text("import tw_not_installed_anywhere\n")
    (tmp_path / "tw_leaves.py").write_text("raise SystemExit(4)\n")
    (tmp_path / "tw_package").mkdir()
    (tmp_path / "tw_package" / "__init__.py").write_text("")
    (tmp_path / "tw_package" / "inner.py").write_text("value = 'deep'\n")
    before = list(sys.path)
    yield tmp_path
    sys.path[:] = before
    for name in [name for name in sys.modules if name.startswith("tw_")]:
        del sys.modules[name]


def refused(path: str, folder: Path) -> str:
    with pytest.raises(ImportPathError) as caught:
        resolve(path, folder)
    assert caught.value.fix
    return str(caught.value)


def test_an_attribute_of_a_module_beside_the_file(folder: Path) -> None:
    assert resolve("tw_good:value", folder) == 3
    assert resolve("tw_good:Shop.desk", folder) == "the desk"
    assert resolve("tw_package.inner:value", folder) == "deep"
    assert resolve("json:dumps", folder)("x") == '"x"'


@pytest.mark.parametrize("path", ["", "tw_good", "tw_good:", ":value", "tw_good.value", "tw good:value", "a:b:c", "../x:y"])
def test_what_is_no_import_path(folder: Path, path: str) -> None:
    assert "is not an import path" in refused(path, folder)


def test_a_missing_module_says_where_it_was_looked_for(folder: Path) -> None:
    assert "There is no module 'tw_nowhere'" in refused("tw_nowhere:x", folder)
    assert "There is no module 'tw_package.nowhere'" in refused("tw_package.nowhere:x", folder)
    assert str(folder) in refused("tw_nowhere:x", folder)


def test_a_module_that_raises_is_not_a_missing_one(folder: Path) -> None:
    said = refused("tw_raises:x", folder)
    assert "'tw_raises' raises when it is imported: ValueError: no luck" in said
    assert "tw_raises.py:3" in said


def test_a_module_whose_own_import_is_missing_raises(folder: Path) -> None:
    said = refused("tw_needs:x", folder)
    assert "'tw_needs' raises when it is imported: ModuleNotFoundError: No module named 'tw_not_installed_anywhere'" in said
    assert "tw_needs.py:1" in said


def test_a_module_with_a_syntax_error_names_its_line(folder: Path) -> None:
    assert "tw_syntax.py:2" in refused("tw_syntax:x", folder)


def test_a_module_that_leaves_the_process_does_not(folder: Path) -> None:
    assert "SystemExit: 4" in refused("tw_leaves:x", folder)


def test_a_missing_attribute_suggests_a_close_one(folder: Path) -> None:
    assert "The module 'tw_good' has no 'valu'. Did you mean 'value'?" in refused("tw_good:valu", folder)
    assert "tw_good:Shop.till has no 'till'" in refused("tw_good:Shop.till", folder)


def test_a_module_of_the_folder_hidden_by_another_is_not_silently_the_other(folder: Path) -> None:
    (folder / "json.py").write_text("value = 1\n")
    said = refused("json:value", folder)
    assert "another module named 'json' is loaded already" in said
    assert "Rename the file." in said
