"""Resolves import paths of the form `module:attribute` and explains why one fails."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from turnwise.config.document import display_path
from turnwise.facts.errors import ConfigError, ImportPathError, TurnwiseError
from turnwise.facts.hints import did_you_mean


def resolve(path: str, folder: Path) -> Any:
    """Returns the object that an import path names.

    Looks for modules in `folder` first, and adds it to `sys.path`.

    Raises:
        ImportPathError: not an import path, no such module, a module that raises on import, or no such attribute; the message
            says which.
    """
    module_name, _, attribute = path.partition(":")
    parts = [*module_name.split("."), *attribute.split(".")]
    if not attribute or not all(part.isidentifier() for part in parts):
        raise ImportPathError(
            f"{path!r} is not an import path.", fix="Write module:attribute, such as agents:billing for billing in agents.py."
        )
    value: Any = _module(module_name, folder, path)
    for name in attribute.split("."):
        try:
            value = getattr(value, name)
        except AttributeError:
            names = [known for known in vars(value) if not known.startswith("_")] if hasattr(value, "__dict__") else []
            where = f"The module {module_name!r}" if isinstance(value, ModuleType) else f"{module_name}:{attribute}"
            raise ImportPathError(f"{where} has no {name!r}.", fix=did_you_mean(name, names)) from None
    return value


def _module(name: str, folder: Path, path: str) -> ModuleType:
    """Imports a module, from the configuration's folder too. Raises ImportPathError."""
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.insert(0, place)
        importlib.invalidate_caches()
    _refuse_shadowed(name, folder)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise ImportPathError(
                f"There is no module {error.name!r} (for {path!r}).",
                fix=f"Looked in {display_path(folder)}/ and in the installed packages: correct the name, or install it.",
            ) from None
        raise _import_failure(name, error) from error
    except (Exception, SystemExit) as error:
        raise _import_failure(name, error) from error


def _refuse_shadowed(name: str, folder: Path) -> None:
    """Refuses a module of the folder that another loaded module of the same name shadows: the wrong one would be used."""
    top = name.partition(".")[0]
    mine = [file for file in (folder / f"{top}.py", folder / top / "__init__.py") if file.is_file()]
    loaded = sys.modules.get(top)
    if not mine or loaded is None:
        return
    file = getattr(loaded, "__file__", None)
    if file is None or Path(file).resolve() not in {own.resolve() for own in mine}:
        problem = f"{display_path(mine[0])} cannot be imported: another module named {top!r} is loaded already"
        raise ImportPathError(f"{problem}, from {file or 'Python itself'}.", fix="Rename the file.")


def _import_failure(name: str, error: BaseException) -> ImportPathError:
    """Returns the error for a module that raises when it is imported, with the place."""
    message = traceback.format_exception_only(error)[-1].strip()
    at = _innermost(error.__traceback__)
    if isinstance(error, SyntaxError) and error.filename:
        at = f"{display_path(Path(error.filename))}:{error.lineno}"
    return ImportPathError(
        f"The module {name!r} raises when it is imported: {message}" + (f" ({at})" if at else ""),
        fix="Correct that module; `python -c 'import …'` shows the whole traceback.".replace("…", name),
    )


def _innermost(trace: TracebackType | None) -> str:
    """The innermost frame in a file, without frames of the import system."""
    own = {__file__, importlib.__file__}
    frames = [frame for frame in traceback.extract_tb(trace) if frame.filename not in own and frame.filename[0] != "<"]
    return f"{display_path(Path(frames[-1].filename))}:{frames[-1].lineno}" if frames else ""


def call_factory(factory: Callable[..., Any], path: str, options: Mapping[str, Any]) -> Any:
    """Calls an imported class or function with its options. Raises ConfigError for any error in it.

    Args:
        factory: The class or function.
        path: Its import path, for the error.
        options: The keyword arguments.
    """
    try:
        return factory(**options)
    except TurnwiseError:
        raise
    except Exception as error:
        given = ", ".join(options) or "none"
        raise ConfigError(
            f"{path} raised {type(error).__name__} when it was made: {error}.", fix=f"Options given: {given}."
        ) from error
