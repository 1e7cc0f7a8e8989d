"""The definitions that serve: what changed is read from the store, kept as a file, and made into sets of agents.

A process that starts without the database serves the definitions that its machine served last (F7).
"""

import asyncio
import hashlib
import json
import logging
import os
import re
import stat
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

from pydantic import ValidationError

from turnwise.config.defined_agents import DefinedAgents
from turnwise.config.policies import ModelSpecs, read_defined_policy
from turnwise.facts.tree import AgentTree
from turnwise.ports.definitions import SERVED_POLICY, AnyDefinition, Definition, Definitions, DefinitionSet, PolicyDefinition
from turnwise.runner.agent_sets import AgentSet
from turnwise.selection.alternatives import alternatives
from turnwise.selection.background_work import background_work
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import PolicySpec

_Version = TypeVar("_Version", Definition, PolicyDefinition)


class ServedDefinitions:
    """The newest served definitions of an app.

    Args:
        store: Stores them.
        app: The app's name.
    """

    def __init__(self, store: Definitions, app: str) -> None:
        self._store, self._app = store, app
        self.known = DefinitionSet(0, (), ())
        """As they were read last."""
        self.retired: frozenset[str] = frozenset()
        """The names of agents that are retired."""

    async def read(self) -> DefinitionSet:
        """Returns those of the newest revision. Raises StoreError."""
        before, retired = self.known, self.retired
        changed = await self._store.served(self._app, after=before.revision)
        newest = merged(before, changed)
        names = {name for kind, name in changed.retired if kind == "agent"}
        if newest.revision >= self.known.revision:  # another reading may have been faster
            self.known, self.retired = newest, (retired | names) - {each.name for each in changed.agents}
        return newest


def merged(before: DefinitionSet, changed: DefinitionSet) -> DefinitionSet:
    """Returns the definitions with the changes that came after them, by name."""
    if not (changed.agents or changed.policies or changed.retired):
        return before._replace(revision=changed.revision)
    agents = _merged(before.agents, changed.agents, {name for kind, name in changed.retired if kind == "agent"})
    policies = _merged(before.policies, changed.policies, {name for kind, name in changed.retired if kind == "policy"})
    return DefinitionSet(changed.revision, agents, policies)


def _merged(before: Sequence[_Version], changed: Sequence[_Version], gone: Set[str]) -> tuple[_Version, ...]:
    if not changed and not gone:
        return tuple(before)
    known = {each.name: each for each in before} | {each.name: each for each in changed}
    for name in gone:
        known.pop(name, None)
    return tuple(sorted(known.values(), key=attrgetter("name")))


_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_REVISION = re.compile(rb'"revision": (\d+)\}\n\Z')
"""How each line ends."""
_TAIL_BYTES = 64
_FREE_BYTES = 100_000

log = logging.getLogger("turnwise.config")


class KeptDefinitions:
    """A file that only this user may read and write. Its methods do not raise: an unusable file acts as a missing one.

    The file's first line holds all definitions of a revision, each further line those that changed up to a later one. So a
    change costs what it is, not what all definitions are. The file is written anew when its changes have become many.

    Args:
        folder: The cache folder.
        app: The app's name.
        store: The session store's URL or import path; it is not written.
    """

    def __init__(self, folder: Path, app: str, store: str) -> None:
        digest = hashlib.sha256(f"{app}\0{store}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        self._path = folder / f"definitions-{digest}.json"
        self._last: DefinitionSet | None = None
        self._rewrite_above_bytes = 0
        """Above this size the file is written anew."""

    def read(self) -> DefinitionSet | None:
        """Returns the definitions; None = there are none, or the file may be another user's."""
        try:
            with self._path.open("rb") as file:
                if not _is_own(file):
                    log.warning("The kept definitions %s are not used: others may have written them.", self._path)
                    return None
                found = _read_set(json.loads(file.readline()))
                for line in file:
                    found = _with_line(found, line)
            return found
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, ValidationError) as problem:
            log.warning("The kept definitions %s cannot be used (%s).", self._path, type(problem).__name__)
            return None

    def write(self, definitions: DefinitionSet) -> None:
        """Keeps these definitions. Adds to the file only what changed since the last time, if that is possible."""
        try:
            if self._last is None or not self._add(self._last, definitions):
                self._replace(definitions)
            self._last = definitions
        except OSError as problem:
            log.warning("The definitions cannot be kept in %s: %s", self._path.parent, problem.strerror)

    def _add(self, before: DefinitionSet, after: DefinitionSet) -> bool:
        """Adds a line with the changes. Returns whether the file then holds the later definitions.

        Processes of one machine share the file: another one may have written this revision already, or an earlier set. Of two
        that write at once, the second one replaces the file: its line would follow another revision than it says.
        """
        line = _change_line(before, after).encode()
        try:
            with open(self._path, "r+b", opener=_appending) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(size - _TAIL_BYTES, 0))
                found = _REVISION.search(file.read())
                if found is None or not _is_own(file) or size > self._rewrite_above_bytes:
                    return False
                kept = int(found[1])
                if kept == before.revision < after.revision:
                    file.write(line)
                    file.flush()
                    if file.tell() != size + len(line):
                        return False
                return kept == before.revision or kept >= after.revision
        except FileNotFoundError:
            return False

    def _replace(self, definitions: DefinitionSet) -> None:
        """Replaces the file. Raises OSError."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix="new-", suffix=".tmp", dir=self._path.parent)  # with mode 600
        try:
            with open(handle, "w", encoding="utf-8") as file, background_work():
                file.writelines(_file_parts(definitions))
                self._rewrite_above_bytes = 2 * file.tell() + _FREE_BYTES
            os.replace(name, self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _is_own(file: BinaryIO) -> bool:
    """Returns whether only this user can have written the open file."""
    status = os.fstat(file.fileno())
    return not hasattr(os, "geteuid") or (status.st_uid == os.geteuid() and not status.st_mode & _OTHERS)


def _read_set(data: Any) -> DefinitionSet:
    agents = tuple(Definition.model_validate_json(each) for each in data["agents"])
    policies = tuple(PolicyDefinition.model_validate_json(each) for each in data["policies"])
    gone = tuple((kind, name) for kind, name in data.get("retired", ()))
    return DefinitionSet(int(data["revision"]), agents, policies, gone)


def _with_line(before: DefinitionSet, line: bytes) -> DefinitionSet:
    """Returns the definitions after a line of changes.

    A line that a crash cut changes nothing, nor one after another set, as when two processes write at once.
    """
    if not line.endswith(b"\n"):
        return before
    data = json.loads(line)
    return merged(before, _read_set(data)) if data["after"] == before.revision else before


def _change_line(before: DefinitionSet, after: DefinitionSet) -> str:
    """Returns the line with what changed between two sets. They share what did not change."""
    same = {id(each) for each in (*before.agents, *before.policies)}
    gone = [("agent", name) for name in sorted(_names(before.agents) - _names(after.agents))]
    gone += [("policy", name) for name in sorted(_names(before.policies) - _names(after.policies))]
    data = {
        "after": before.revision,
        "agents": [each.model_dump_json() for each in after.agents if id(each) not in same],
        "policies": [each.model_dump_json() for each in after.policies if id(each) not in same],
        "retired": gone,
        "revision": after.revision,
    }
    return f"{json.dumps(data)}\n"


def _names(definitions: Iterable[AnyDefinition]) -> set[str]:
    return {each.name for each in definitions}


def _appending(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND)


def _file_parts(definitions: DefinitionSet) -> Iterator[str]:
    """Yields the file's text in parts: all of it at once would take much memory."""
    yield '{"agents": ['
    yield from _listed(definitions.agents)
    yield '], "policies": ['
    yield from _listed(definitions.policies)
    yield f'], "revision": {definitions.revision}}}\n'


def _listed(definitions: Iterable[AnyDefinition]) -> Iterator[str]:
    for number, each in enumerate(definitions):
        yield f"{', ' if number else ''}{json.dumps(each.model_dump_json())}"


class BindPolicy(Protocol):
    """Binds a policy to a tree, with the app's selectors and encoder. Shares what earlier agents had in memory.

    With `aside`, the agents are only tried: preparing and closing the cascade does not touch those that serve.
    """

    def __call__(self, spec: PolicySpec, tree: AgentTree, *, aside: bool = False) -> Cascade: ...


class ConfiguredPolicies(NamedTuple):
    """The policies of the configuration."""

    served: PolicySpec
    """It decides while no policy definition serves."""
    others: Mapping[str, PolicySpec] = {}
    """The policies that arms and shadows may name."""
    arms: Sequence[str] = ()
    """The names of the policies that the configured experiment's arms name."""


class DefinedSets:
    """Makes the sets of an app. Implements `runner.revision_watch.SetSource`.

    Args:
        store: Stores the definitions.
        app: The app's name.
        agents: Applies definitions to the agents in code.
        policies: The policies of the configuration. A policy definition of the same name takes precedence.
        models: The models that policies may name.
        bind: Binds a policy to a tree.
        kept: Where this machine keeps the definitions that it served last; None = nowhere.
    """

    def __init__(
        self,
        store: Definitions,
        app: str,
        agents: DefinedAgents,
        policies: ConfiguredPolicies,
        models: ModelSpecs,
        bind: BindPolicy,
        kept: KeptDefinitions | None = None,
    ) -> None:
        self._store, self._app, self._agents = store, app, agents
        self._policies, self._models, self._bind, self._kept = policies, models, bind, kept
        self._lock = threading.Lock()
        self.served = ServedDefinitions(store, app)
        self._made = self.served.known

    async def revision(self) -> int:
        """Returns the newest revision; 0 if nothing was ever stored. Raises StoreError."""
        return await self._store.revision(self._app)

    async def make(self, revision: int | None = None) -> AgentSet:
        """Returns the set of a revision; None = the newest one. Reads only what changed since the newest set before.

        Raises:
            TurnwiseError: The definitions do not fit together, or an agent cannot be made.
            StoreError: The definitions cannot be read now.
        """
        if revision is not None:
            definitions = await self._store.served(self._app, at=revision)
        else:
            definitions = self._made = await self.served.read()
        return await asyncio.to_thread(self.of, definitions)

    def of(self, definitions: DefinitionSet) -> AgentSet:
        """Returns the set of these definitions. Raises TurnwiseError."""
        with self._lock, background_work():
            applied = self._agents.apply(definitions.agents)
            tree = applied.tree
            served = next((each for each in definitions.policies if each.name == SERVED_POLICY), None)
            cascade = self._bind(self._policy_of(served), tree)
            wanted = {*self._policies.arms, *self._policies.others, cascade.spec.shadow}
            defined = self._defined([each for each in definitions.policies if each.name in wanted])
            others = alternatives(cascade, self._policies.arms, {**self._policies.others, **defined})
            retired = self.served.retired - {card.name for card in tree}
            return AgentSet(applied.agents, tree, cascade, definitions.revision, retired, others)

    async def last_known(self) -> AgentSet | None:
        """Returns the set that this machine served last; None = it kept none. Raises TurnwiseError."""
        kept = None if self._kept is None else await asyncio.to_thread(self._kept.read)
        return None if kept is None else await asyncio.to_thread(self.of, kept)

    async def keep(self) -> None:
        """Keeps the newest definitions for `last_known`."""
        if self._kept is not None:
            await asyncio.to_thread(self._kept.write, self._made)

    def tried(self, definition: PolicyDefinition | None, tree: AgentTree) -> Cascade:
        """Returns the policy, or that of the configuration, bound to these agents only to try them.

        Raises:
            ConfigError: The policy cannot decide over the agents.
        """
        return self._bind(self._policy_of(definition), tree, aside=True)

    def _defined(self, definitions: Sequence[PolicyDefinition]) -> dict[str, PolicySpec]:
        """Returns the policies of definitions, by name."""
        return {each.name: read_defined_policy(each, self._models) for each in definitions if not each.unknown_fields}

    def _policy_of(self, definition: PolicyDefinition | None) -> PolicySpec:
        if definition is None or definition.unknown_fields:
            return self._policies.served
        return read_defined_policy(definition, self._models)
