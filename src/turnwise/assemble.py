"""Builds a running app from a configuration file. The only module that names implementations."""

import asyncio
import functools
import inspect
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from turnwise.config.agent_builder import AgentBuilder, flows_by_name, model_names, team_selector_paths
from turnwise.config.agent_factory import AgentFactory, Registered
from turnwise.config.app_file import EndpointEncoderSection, GuardrailSection, Reference
from turnwise.config.defined_agents import DefinedAgents
from turnwise.config.defined_sets import ConfiguredPolicies, DefinedSets
from turnwise.config.definition_editor import DefinitionEditor
from turnwise.config.document import Where, display_path
from turnwise.config.gateway_entries import access_control, check_gateway
from turnwise.config.guardrail_entries import build_guardrail
from turnwise.config.importing import call_factory, resolve
from turnwise.config.kept_definitions import KeptDefinitions
from turnwise.config.policies import location_of_error, read_experiment, read_policies, read_policy, stage_selector_paths
from turnwise.config.registered_parts import model_specs, read_registered
from turnwise.config.settings import Settings, find_file, read_settings
from turnwise.dispatch.engine import Engine, EngineSettings
from turnwise.facts.errors import ConfigError, PatternError, TurnwiseError
from turnwise.facts.gateway import GatewayConfig
from turnwise.facts.memory import MemoryConfig
from turnwise.facts.tree import AgentTree
from turnwise.flows.kinds import AnyFlow
from turnwise.learning.experiments import watch_experiment
from turnwise.ports.agent import Agent
from turnwise.ports.definitions import DefinitionStore
from turnwise.ports.encoder import Encoder
from turnwise.ports.hooks import Hooks
from turnwise.ports.schema_status import SchemaStatus
from turnwise.ports.stores import SessionStore
from turnwise.runner import Runner
from turnwise.runner.revision_watch import RevisionWatch
from turnwise.selection.cascade import Cascade
from turnwise.selection.policy import PolicySpec
from turnwise.selection.semantic import has_words
from turnwise.stores.sql import SqlSessionStore
from turnwise.stores.sql.upgrade import read_status

IN_MEMORY = "in_memory"
_SECRET = re.compile(r"(://[^:/@]*):[^@]*@")
_SECRET_OPTION = re.compile(r"((?:password|secret|token|key)[a-z_]*=)[^&]*", re.IGNORECASE)
_SQLITE_FILE = re.compile(r"(?P<kind>sqlite(?:\+\w+)?:///)(?P<file>(?!/|:memory:).+)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
_REQUIRED_ATTRIBUTES = {
    "store": ("open", "begin", "take", "append", "events"),
    "artifacts": ("save", "load", "list"),
    "encoder": ("encode", "dimensions", "fingerprint"),
    "guardrails": ("name", "check"),
    "hooks": ("selected", "stored", "ended"),
}
_Selectors = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class App:
    """A loaded app. The caller closes the runner."""

    runner: Runner
    """Ready for messages."""
    path: Path
    """The configuration file."""
    store: str = ""
    """The session store's URL or import path, without passwords; for display."""
    flows: Mapping[str, AnyFlow] = field(default_factory=dict)
    """The flows among the app's agents, by name."""
    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    """The settings under `gateway`."""
    editor: DefinitionEditor | None = None
    """Changes the definitions in the database. None if the session store keeps none."""
    sets: DefinedSets | None = None
    """Makes the agents of a revision of the definitions."""
    watch: RevisionWatch | None = None
    """Serves each new revision. None if the session store keeps no definitions."""
    engine: Engine | None = None
    """Schedules the work. None means that each process answers the messages that it accepts."""

    async def serve_definitions(self) -> None:
        """Serves the newest definitions of the database, if there are any; without the database, those served last.

        Raises:
            TurnwiseError: They do not fit together. The set that served before goes on.
        """
        if self.watch is not None:
            await self.watch.start()
        if self.runner.sets.problem is not None:
            raise self.runner.sets.problem

    async def follow_definitions(self) -> None:
        """Serves each new revision, until it is cancelled. Definitions that do not fit together are logged and not served."""
        if self.watch is not None:
            await self.watch.forever()

    async def watch_experiment(self) -> None:
        """Ends the app's experiment when an arm is surely worse, until it is cancelled. Returns at once if it can get none."""
        store, known = self.runner.store, self.runner.experiments
        if known.store is not None and isinstance(store, SqlSessionStore):
            await watch_experiment(store.experiments, self.runner.app, known.configured, known.now)


class Report(NamedTuple):
    """The result of checking a configuration file."""

    path: Path
    app: str
    errors: tuple[TurnwiseError, ...]
    """Every problem, in the order of the file; empty if the configuration is valid."""
    tree: AgentTree | None = None
    """None if the agents have errors."""
    policy: str = ""
    """The policy's name and fingerprint; empty if no runner could be built."""
    store: str = ""
    """The session store's URL or import path, without passwords."""
    artifacts: str = ""
    """The artifact store's URL, folder or import path, without passwords; empty if there is none."""
    timings: tuple[tuple[str, float], ...] = ()
    """Pairs of stage and milliseconds."""
    phrases: int = 0
    """How many phrases the semantic index compares; 0 if the policy has no semantic stage."""
    encoder: str = ""
    """Fingerprint of the semantic index's encoder; empty if the policy has no semantic stage."""
    models: Mapping[str, str] = {}
    """Model names of the LLM agents, by agent."""

    @property
    def shown(self) -> str:
        """The file's path for display."""
        return display_path(self.path)


def load_app(path: Path | str | None = None, *, hooks: Sequence[Hooks] = (), engine: EngineSettings | None = None) -> App:
    """Builds the app of a configuration file.

    Imports the modules that the file names. Opens nothing before the first message.

    Args:
        path: the file or its folder; None = turnwise.yaml in this folder or the nearest one above.
        hooks: added after those of the file.
        engine: schedules the work; None = this process answers the messages that it accepts.

    Raises:
        ConfigError: for the first problem, or a subclass of it; its fix says how many there are.
    """
    assembly = _Assembly(find_file(path), hooks, engine)
    runner = assembly.runner()
    problems = assembly.problems
    if runner is None or problems:
        first = problems[0]
        if len(problems) > 1:
            first.fix = f"{first.fix} (Mistakes in all: {len(problems)}; `turnwise check` shows each.)".lstrip()
        raise first
    place = _without_secrets(assembly.settings.file.store)
    parts = (assembly.flows, assembly.gateway, *assembly.definitions(runner))
    return App(runner, assembly.path, place, *parts, engine=assembly.engine)


class LoadedStore(NamedTuple):
    """The session store of an app, without its agents. The caller closes the store."""

    app: str
    store: SessionStore
    place: str
    """The store's URL or import path, without passwords."""
    gateway: GatewayConfig
    """The settings under `gateway`."""


def load_store(path: Path | str | None = None) -> LoadedStore:
    """Loads only the session store of an app, for commands that administer stored data.

    Agents and policy are not built, so they may have errors.

    Raises:
        ConfigError: for the first problem under `app`, `store` or `gateway`.
    """
    assembly = _Assembly(find_file(path))
    store, settings = assembly.store(), assembly.settings
    problems = settings.written.problems_below("app", "store", "gateway")
    if problems or not settings.file.app or store is None:
        raise (problems or assembly.problems)[0]
    return LoadedStore(settings.file.app, store, _without_secrets(settings.file.store), assembly.gateway)


def check_schema(path: Path | str | None = None) -> tuple[str, SchemaStatus]:
    """Reads whether the store of an app has to be migrated. Changes nothing.

    Returns:
        The store's URL without passwords, and its status.

    Raises:
        ConfigError: The configuration is wrong, or the store is not one of ours.
        StoreUnavailable: The database cannot be read.
    """
    assembly = _Assembly(find_file(path))
    place = assembly.settings.file.store
    assembly.store()
    if problems := assembly.settings.written.problems_below("app", "store"):
        raise problems[0]
    if isinstance(place, Reference):
        raise ConfigError("The store is not one that ships.", fix="Migrate it with its own tools.")
    return _without_secrets(place), read_status(assembly.store_url(place))


def check_app(path: Path | str | None = None) -> Report:
    """Checks a configuration file without running an agent or opening a store. Must not run inside an event loop.

    Also builds the policy's semantic index and caches it, so the app starts faster.

    Returns:
        A report with every problem.

    Raises:
        ConfigError: only if there is no file.
    """
    file = find_file(path)
    try:
        assembly = _Assembly(file)
    except TurnwiseError as error:
        return Report(file, "", (error,))
    runner = assembly.runner()
    if runner is not None:
        assembly.prepare(runner.cascade)
    settings, meaning = assembly.settings, runner.cascade.meaning if runner else None
    return Report(
        path=file,
        app=settings.file.app,
        errors=assembly.problems,
        tree=assembly.tree,
        policy=f"{runner.cascade.spec.name} ({runner.cascade.fingerprint})" if runner else "",
        store=_without_secrets(settings.file.store),
        artifacts=_without_secrets(settings.file.artifacts),
        timings=tuple(assembly.timings),
        phrases=len(meaning.phrases) if meaning else 0,
        encoder=meaning.encoder.fingerprint if meaning else "",
        models=assembly.models,
    )


def _without_secrets(place: str | Reference | None) -> str:
    text = place.path if isinstance(place, Reference) else place or ""
    return _SECRET_OPTION.sub(r"\1***", _SECRET.sub(r"\1:***@", text))


class _Assembly:
    """Builds one app and collects every problem on the way."""

    def __init__(self, path: Path, hooks: Sequence[Hooks] = (), engine: EngineSettings | None = None) -> None:
        self.path, self._hooks = path, hooks
        self.timings: list[tuple[str, float]] = []
        self.tree: AgentTree | None = None
        self.models: Mapping[str, str] = {}
        self.flows: Mapping[str, AnyFlow] = {}
        self._registered = Registered()
        with self._timed("read"):
            self.settings: Settings = read_settings(path)
            self._document = self.settings.document
            self.gateway = check_gateway(self._document, self.settings.file.gateway)
        written = self.settings.file
        self.engine = None if engine is None else engine.open(written.app, written.process.concurrency)

    @property
    def problems(self) -> tuple[TurnwiseError, ...]:
        return self._document.problems

    @contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.timings.append((stage, (time.perf_counter() - began) * 1000))

    def runner(self) -> Runner | None:
        """Builds the runner. Returns None after it reported the problems."""
        with self._timed("import"):
            selectors = self._selectors()
            parts = self._parts()
            self._check_access(parts["store"])
            self._registered = read_registered(self.settings)
            agents = AgentBuilder(self.settings, selectors, parts["encoder"])
        with self._timed("agents"):
            root = agents.root()
            if root is not None:
                self.tree, self.models, self.flows = agents.tree(root), model_names(root), flows_by_name(root)
        policy = read_policy(self.settings)
        if root is None or self.tree is None or policy is None:
            agents.report_refused_patterns()
            return None
        with self._timed("policy"):
            return self._build_runner(agents, root, policy, selectors, parts)

    def _build_runner(
        self, agents: AgentBuilder, root: Agent, policy: PolicySpec, selectors: _Selectors, parts: dict[str, Any]
    ) -> Runner | None:
        """Builds the runner; None if there are problems, which are reported."""
        assert self.tree is not None
        try:
            if self.problems:
                if len(selectors) == len(self._user_selectors()):
                    Cascade(policy, self.tree, selectors)  # also reports problems of the policy
                return None
            self._root, self._policy = root, policy
            self._policies, self._experiment = read_policies(self.settings), read_experiment(self.settings)
            if self.problems:
                return None
            return Runner(
                root,
                app=self.settings.file.app,
                policy=policy,
                custom_selectors=selectors,
                keep=self._cache_folder(policy),
                policies=self._policies,
                experiment=self._experiment,
                dispatcher=None if self.engine is None else self.engine.dispatcher,
                **parts,
            )
        except PatternError as error:
            if not agents.report_refused_patterns():
                self._document.report_error(("agents",), error)
        except TurnwiseError as error:
            self._document.report_error(location_of_error(self._document, error), error)
        return None

    def definitions(self, runner: Runner) -> tuple[DefinitionEditor | None, DefinedSets | None, RevisionWatch | None]:
        """Builds what changes definitions and serves them. Nothing if the store keeps none."""
        if not isinstance(runner.store, DefinitionStore):
            return None, None, None
        store, app = runner.store.definitions, self.settings.file.app
        agents = DefinedAgents(self._root, AgentFactory(self._registered))
        from turnwise.matching.disk_cache import folder_from_environment

        folder = folder_from_environment()
        kept = KeptDefinitions(folder, app, str(self.settings.file.store)) if folder is not None else None

        def bind(spec: PolicySpec, tree: AgentTree, *, aside: bool = False) -> Cascade:
            return runner.cascade.changed(spec, tree, aside=aside)

        policies = ConfiguredPolicies(self._policy, self._policies, self._experiment.policies if self._experiment else ())
        sets = DefinedSets(store, app, agents, policies, model_specs(self.settings), bind, kept)
        watch = RevisionWatch(runner.sets, sets, app, runner.store.signals)
        return DefinitionEditor(store, app, agents, sets.tried, watch.announce, sets.served), sets, watch

    def store(self) -> SessionStore | None:
        """Builds the session store. Returns None after it reported the problems."""
        store: SessionStore | None = self._store(self.settings.file.store)
        return store

    def prepare(self, cascade: Cascade) -> None:
        """Builds the policy's semantic index; reports its errors."""
        if cascade.meaning is not None:
            with self._timed("fit"):
                self._try(("encoder",), lambda: asyncio.run(cascade.prepare()))

    def _cache_folder(self, policy: PolicySpec) -> Path | None:
        """The cache folder for fitted indexes, which can be rebuilt at any time. None if the policy needs none."""
        assert self.tree is not None
        if not has_words(self.tree, policy.default):
            return None
        from turnwise.matching.disk_cache import folder_from_environment

        return folder_from_environment()

    def _user_selectors(self) -> dict[str, tuple[Where, Reference]]:
        """The user's selectors by name. One that a policy or team names by import path has that path as its name."""
        settings = self.settings
        named = {name: (("selectors", name), reference) for name, reference in settings.file.selectors.items()}
        places = [*stage_selector_paths(settings), *team_selector_paths(settings)]
        return {**named, **{path: (where, Reference.to(path)) for where, path in places}}

    def _selectors(self) -> _Selectors:
        """Imports the app's own selectors by name, and reports those that fail."""
        made = {}
        for name, (where, reference) in self._user_selectors().items():
            factory = self._resolve(where, reference)
            if factory is not None:
                made[name] = functools.partial(factory, **reference.options) if reference.options else factory
        return made

    def _parts(self) -> dict[str, Any]:
        """Builds what the runner is made of besides agents and policy."""
        file = self.settings.file
        encoder = self._encoder(file.encoder)
        guardrails = [self._guardrail(("guardrails", index), item, encoder) for index, item in enumerate(file.guardrails)]
        hooks = [self._instantiate(("hooks", index), reference) for index, reference in enumerate(file.hooks)]
        return {
            "config": self.settings.run,
            "process": file.process,
            "retention": file.retention,
            "store": self.store(),
            "artifacts": self._artifacts(file.artifacts),
            "encoder": encoder,
            "memory": MemoryConfig(**file.memory.model_dump()) if file.memory is not None else None,
            "guardrails": guardrails,
            "hooks": [*hooks, *self._hooks],
        }

    def _check_access(self, store: Any) -> None:
        """Reports problems with the gateway's authentication and quotas."""
        if store is not None:
            self._try(("gateway",), lambda: access_control(self.settings.file.app, self.gateway, store))

    def _guardrail(self, where: Where, item: str | GuardrailSection | Reference, encoder: Encoder | None) -> Any:
        if isinstance(item, str) and ":" in item:
            item = Reference.to(item)
        if isinstance(item, Reference):
            return self._instantiate(where, item)
        return self._try(where, lambda: build_guardrail(item, encoder))

    def _store(self, place: str | Reference) -> Any:
        if isinstance(place, Reference):
            return self._instantiate(("store",), place)
        url = self.store_url(place)
        return self._try(("store",), lambda: SqlSessionStore(url))

    def store_url(self, url: str) -> str:
        """Returns the URL with an SQLite file taken relative to the configuration's folder."""
        relative = _SQLITE_FILE.fullmatch(url)
        return url if relative is None else f"{relative['kind']}{self._document.folder.resolve() / relative['file']}"

    def _artifacts(self, place: str | Reference | None) -> Any:
        """Builds the artifact store that the configuration names; None without one, or after reporting a problem."""
        if place is None or isinstance(place, Reference):
            return self._instantiate(("artifacts",), place) if place else None
        if place == "memory":
            fix = f"Write {IN_MEMORY} for this process's memory, ./memory for a folder."
            self._document.report(("artifacts",), "'memory' can mean two things here.", fix)
            return None
        return self._try(("artifacts",), lambda: self._artifact_store(place))

    def _encoder(self, place: str | EndpointEncoderSection | Reference | None) -> Any:
        """Builds the encoder that the configuration names; None for the bundled one, or after reporting a problem."""
        if isinstance(place, Reference):
            return self._instantiate(("encoder",), place)
        if isinstance(place, EndpointEncoderSection):
            from turnwise.models.encoders.embeddings_endpoint import EndpointEncoder

            return self._try(("encoder",), lambda: EndpointEncoder(**{**dict(place), "key": place.key or None}))
        if place is None:
            return None
        from turnwise.matching.encoder.onnx_encoder import OnnxEncoder

        return self._try(("encoder",), lambda: OnnxEncoder(self._document.folder.resolve() / place))

    def _artifact_store(self, place: str) -> Any:
        """Returns the artifact store of a place: memory, a URL, or a folder."""
        if place == IN_MEMORY:
            from turnwise.stores.artifacts.in_memory import InMemoryArtifactStore

            return InMemoryArtifactStore()
        if _SCHEME.match(place):
            from turnwise.stores.artifacts.objects import ObjectArtifactStore

            return ObjectArtifactStore(place)
        from turnwise.stores.artifacts.on_disk import OnDiskArtifactStore

        return OnDiskArtifactStore(self._document.folder.resolve() / place)

    def _resolve(self, where: Where, reference: Reference) -> Any:
        return self._try(where, lambda: resolve(reference.path, self._document.folder))

    def _instantiate(self, where: Where, reference: Reference) -> Any:
        """Resolves a reference. Calls a class or function with the reference's options."""
        made = self._resolve(where, reference)
        if made is None:
            return None
        if inspect.isclass(made) or inspect.isroutine(made):
            made = self._try(where, lambda: call_factory(made, reference.path, reference.options))
        elif reference.options:
            problem = f"{reference.path} is already an object, so it takes no options."
            self._document.report(where, problem, "Name its class, or a function that makes it.")
            return None
        missing = [name for name in _REQUIRED_ATTRIBUTES[str(where[0])] if not hasattr(made, name)]
        if made is not None and missing:
            problem = f"{reference.path} gives a {type(made).__name__}, which has no {missing[0]!r}."
            fix = f"See turnwise.ports for what belongs under {where[0]!r}."
            self._document.report(where, problem, fix)
        return made

    def _try(self, where: Where, make: Callable[[], Any]) -> Any:
        """Returns the result of `make`. Returns None if that location has a problem, or after it reported a TurnwiseError."""
        if self._document.has_problem(where):
            return None
        try:
            return make()
        except TurnwiseError as error:
            self._document.report_error(where, error)
            return None
