"""Public packages that import a name's module only when the name is used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def face(package: str, homes: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any]]:
    """Returns `__all__` and `__getattr__` for a package that exports names of other modules.

    A module is imported when one of its names is first used, so that importing the package stays cheap and optional libraries
    stay optional.

    Args:
        package: the name of the package.
        homes: the exported names, separated by spaces, by the module that defines them.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def exported(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return sorted(modules), exported
