"""Checks what a runner is made with, and what a message is sent with: a mistake is named where it was made."""

import reprlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnwise.facts.errors import ConfigError
from turnwise.facts.ids import ID_CHARACTERS, is_storable_id
from turnwise.facts.limits import ProcessConfig, RunConfig
from turnwise.selection.policy import PolicySpec


def check_arguments(
    *, app: object, policy: object, custom_selectors: object, keep: object, config: object, process: object
) -> None:
    """Raises ConfigError that names the first argument of a runner that is of the wrong kind, and what to pass."""
    if not isinstance(app, str) or not is_storable_id(app):
        raise _wrong("app", app, f"a name of 1 to {ID_CHARACTERS} characters")
    if not isinstance(policy, str | PolicySpec):
        raise _wrong("policy", policy, 'a name such as "default", or PolicySpec(…)')
    if custom_selectors is not None and not isinstance(custom_selectors, Mapping):
        raise _wrong("custom_selectors", custom_selectors, "a dict from names to functions that make a selector")
    if keep is not None and not isinstance(keep, str | Path):
        raise _wrong("keep", keep, "the path of a folder")
    check_config(config)
    if process is not None and not isinstance(process, ProcessConfig):
        raise _wrong("process", process, "ProcessConfig(…)")


def check_config(config: object) -> None:
    """ConfigError when that is no configuration of a run."""
    if config is not None and not isinstance(config, RunConfig):
        raise _wrong("config", config, "RunConfig(…)")


def checked_parts(name: str, given: Any, methods: Sequence[str], instead: str) -> tuple[Any, ...]:
    """Returns what is given as a list, each with these methods. ConfigError names the place of the first without one."""
    if isinstance(given, str | type) or not isinstance(given, Sequence):
        raise _wrong(name, given, f"a list of {instead}")
    for place, each in enumerate(given, 1):
        missing = _missing(each, methods)
        if missing is not None:
            raise _wrong(f"{name}[{place - 1}]", each, f"{instead}: it has no method `{missing}`")
    return tuple(given)


def check_part(name: str, given: Any, methods: Sequence[str], instead: str) -> None:
    """ConfigError when something else than None is given that lacks one of the methods."""
    if given is not None and _missing(given, methods) is not None:
        raise _wrong(name, given, instead)


def _missing(given: Any, methods: Sequence[str]) -> str | None:
    if isinstance(given, type | str | bytes):  # a text has an `encode`, too
        return methods[0]
    return next((each for each in methods if not callable(getattr(given, each, None))), None)


def _wrong(name: str, given: object, instead: str) -> ConfigError:
    shown = f"the class {given.__name__}" if isinstance(given, type) else f"{type(given).__name__} {reprlib.repr(given)}"
    return ConfigError(f"A runner cannot use this as `{name}`: {shown}.", fix=f"Pass {instead}.")
