"""A configuration file into a running app. The only file that names implementations."""

import functools
import inspect
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from turnwise.agents.collect import collect
from turnwise.config.importing import resolve
from turnwise.config.places import Where, shown
from turnwise.config.policies import culprit, read_policy, refuse_bad_patterns
from turnwise.config.roster import Roster
from turnwise.config.settings import Reference, Settings, find_file, read_settings
from turnwise.facts.errors import ConfigError, PatternError, PolicyError, TurnwiseError
from turnwise.facts.tree import AgentTree
from turnwise.ports.agent import Agent
from turnwise.runner import Runner
from turnwise.selection.policy import PolicySpec

IN_MEMORY = "in_memory"
_SECRET = re.compile(r"(://[^:/@]*):[^@]*@")
_SQLITE_FILE = re.compile(r"(?P<kind>sqlite(?:\+\w+)?:///)(?P<file>(?!/|:memory:).+)")
_NEEDED = {
    "store": ("open", "begin", "append", "events"),
    "artifacts": ("save", "load", "list"),
    "guardrails": ("name", "check"),
    "hooks": ("selected", "stored", "ended"),
}


class App(NamedTuple):
    """A runner, ready for messages, and the file it was made from. Whoever has it closes the runner."""

    runner: Runner
    path: Path


class Report(NamedTuple):
    """What a configuration amounts to. `errors` is empty if all is well; `tree` is None when there is none.

    timings: milliseconds by stage. Store and artifacts are shown without passwords.
    """

    path: Path
    app: str
    errors: tuple[TurnwiseError, ...]
    tree: AgentTree | None = None
    policy: str = ""
    store: str = ""
    artifacts: str = ""
    timings: tuple[tuple[str, float], ...] = ()

    @property
    def shown(self) -> str:
        """The file's path as a reader wants it."""
        return shown(self.path)


def load_app(path: Path | None = None) -> App:
    """The app of that configuration file, or of turnwise.yaml here or above.

    Modules are imported; nothing is opened before the first message. ConfigError, or one below it, for the first mistake;
    its fix says how many more there are.
    """
    assembly = _Assembly(find_file(path))
    runner = assembly.runner(thorough=False)
    problems = assembly.problems
    if runner is None or problems:
        first = problems[0]
        if len(problems) > 1:
            first.fix = f"{first.fix} There are {len(problems) - 1} more mistakes: `turnwise check` tells all.".lstrip()
        raise first
    return App(runner, assembly.path)


def check_app(path: Path | None = None) -> Report:
    """Everything that can be said about a configuration without running an agent or touching a store.

    Mistakes are in the report. ConfigError only when there is no file.
    """
    file = find_file(path)
    try:
        assembly = _Assembly(file)
    except TurnwiseError as error:
        return Report(file, "", (error,))
    runner = assembly.runner(thorough=True)
    settings = assembly.settings
    return Report(
        path=file,
        app=settings.app,
        errors=assembly.problems,
        tree=assembly.tree,
        policy=f"{runner.cascade.spec.name} ({runner.cascade.fingerprint})" if runner else "",
        store=_shown_place(settings.store),
        artifacts=_shown_place(settings.artifacts),
        timings=tuple(assembly.timings),
    )


def _shown_place(place: str | Reference | None) -> str:
    return _SECRET.sub(r"\1:***@", place.path if isinstance(place, Reference) else place or "")


class _Assembly:
    """Builds one app, collecting every mistake on the way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.timings: list[tuple[str, float]] = []
        self.tree: AgentTree | None = None
        with self._timed("read"):
            self.settings: Settings = read_settings(path)
        self._document = self.settings.document

    @property
    def problems(self) -> tuple[TurnwiseError, ...]:
        return self._document.problems

    def runner(self, *, thorough: bool) -> Runner | None:
        """The runner; None when something is wrong with what it is made of. `thorough` looks for every bad pattern."""
        selectors = self._selectors()
        root = self._root(selectors)
        policy = read_policy(self.settings)
        parts = {
            "store": self._store(),
            "artifacts": self._artifacts(),
            "guardrails": [self._made(reference) for reference in self.settings.guardrails],
            "hooks": [self._made(reference) for reference in self.settings.hooks],
        }
        if root is None or policy is None or self.tree is None:
            return None
        if thorough:
            with self._timed("patterns"):
                refuse_bad_patterns(self._roster, self.tree)
        if self.problems:
            parts["store"] = parts["store"] or _Nowhere()
        with self._timed("policy"):
            return self._joined(root, policy, selectors, parts)

    def _joined(
        self, root: Agent, policy: PolicySpec, selectors: Mapping[str, Callable[..., Any]], parts: dict[str, Any]
    ) -> Runner | None:
        try:
            return Runner(
                root, app=self.settings.app, policy=policy, custom_selectors=selectors, config=self.settings.run, **parts
            )
        except PatternError as error:
            refuse_bad_patterns(self._roster, self.tree)
            if not self.problems:
                self._document.report_error(("agents",), error)
        except TurnwiseError as error:
            self._document.report_error(culprit(self._document, error), error)
        return None
