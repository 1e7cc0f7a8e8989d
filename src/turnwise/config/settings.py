"""The settings of `turnwise.yaml` as one value. Reading them imports, opens and builds nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from turnwise.config.document import kind_of, read_document
from turnwise.config.entries import AgentEntry, read_entries
from turnwise.config.gateway_entries import read_gateway
from turnwise.config.guardrail_entries import BuiltInGuardrail, read_guardrails
from turnwise.config.importing import Reference, read_reference, read_references
from turnwise.config.places import Document, Where, display_path
from turnwise.config.validation import validated
from turnwise.facts.errors import ConfigError
from turnwise.facts.gateway import GatewayConfig
from turnwise.facts.limits import Limits, ProcessConfig, RunConfig
from turnwise.facts.spelling import did_you_mean

FILE_NAME = "turnwise.yaml"
DEFAULT_STORE = "sqlite:///turnwise.db"

KEYS = (
    "app", "root", "agents", "policy", "encoder", "selectors", "store", "artifacts", "limits", "run", "process",
    "guardrails", "hooks", "gateway",
)  # fmt: skip
NOTES = "x-"
"""Prefix of top-level keys that are ignored: a place for YAML anchors."""


class Endpoint(NamedTuple):
    """An encoder at an OpenAI-compatible URL."""

    url: str
    model: str
    key: str
    """Empty = no API key is sent."""
    where: Where


class Settings(NamedTuple):
    """The content of a configuration file. An invalid value is replaced by its default. Paths are as written: relative to the
    file's folder.
    """

    document: Document
    """Holds the lines and the problems."""
    app: str
    root: str | None
    """Name of the root agent; None if there is none, or if an import path names it."""
    entries: tuple[AgentEntry, ...]
    policy: str | Mapping[str, Any]
    """A policy's name, or the mapping under `policy`."""
    encoder: str | Endpoint | Reference | None
    """A folder, an endpoint, a reference to the user's own, or None for the built-in one."""
    selectors: Mapping[str, Reference]
    store: str | Reference
    """A URL, or a reference to the user's own."""
    artifacts: str | Reference | None
    """`in_memory`, a folder, a URL, a reference to the user's own, or None for no artifacts."""
    run: RunConfig
    process: ProcessConfig
    guardrails: tuple[BuiltInGuardrail | Reference, ...]
    hooks: tuple[Reference, ...]
    gateway: GatewayConfig


def find_file(given: Path | str | None, start: Path | None = None) -> Path:
    """Finds the configuration file: the given one, the one in the given folder, or the nearest in this folder or above.

    Raises:
        ConfigError: if there is none, or the given one does not exist.
    """
    if given is not None:
        given = Path(given)
        file = given / FILE_NAME if given.is_dir() else given
        if not file.exists():
            fix = "Check the path, or make a project with `turnwise init`."
            raise ConfigError(f"{display_path(file)} does not exist.", fix=fix)
        return file
    here = (start or Path.cwd()).absolute()
    for folder in (here, *here.parents):
        if (folder / FILE_NAME).is_file():
            return folder / FILE_NAME
    raise ConfigError(
        f"There is no {FILE_NAME} here or in a folder above.",
        fix="Make a project with `turnwise init`, or name the file with --config FILE.",
    )


def read_settings(path: Path, variables: Mapping[str, str] | None = None) -> Settings:
    """Reads the settings of a file. All problems but those of YAML itself are in `document.problems`.

    Raises:
        ConfigError: if the file is no YAML.
    """
    document = read_document(path, variables)
    data = document.data
    for key in data:
        if key not in KEYS and not key.startswith(NOTES):
            document.report((key,), f"There is no key {key!r} in this file.", did_you_mean(key, KEYS))
    root = _text(document, ("root",), None)
    return Settings(
        document=document,
        app=_app(document),
        root=root if root is not None and ":" not in root else None,
        entries=read_entries(document, root),
        policy=_policy(document),
        encoder=_encoder(document),
        selectors=_selectors(document),
        store=_place(document, ("store",)) or DEFAULT_STORE,
        artifacts=_place(document, ("artifacts",)),
        run=_run(document),
        process=validated(document, ("process",), ProcessConfig, _mapping(document, "process")) or ProcessConfig(),
        guardrails=read_guardrails(document),
        hooks=read_references(document, "hooks"),
        gateway=read_gateway(document, _mapping(document, "gateway")),
    )


def _text(document: Document, where: Where, default: str | None) -> str | None:
    value = document.data.get(str(where[0]))
    if value is None:
        if where[0] in document.data:
            document.report(where, f"{where[0]!r} is empty.", "Write a value, or remove the line.")
        return default
    if not isinstance(value, str):
        fix = "Put it in quotes." if isinstance(value, bool | int | float) else "Write text."
        document.report(where, f"{where[0]!r} should be text, but is {kind_of(value)}.", fix)
        return default
    return value


def _app(document: Document) -> str:
    name = _text(document, ("app",), "")
    if "app" not in document.data:
        document.report((), "The key 'app' is missing.", "Write `app: name`: sessions are stored under that name.")
    elif name is not None and name.strip() == "" and isinstance(document.data["app"], str):
        document.report(("app",), "'app' is empty.", "Write a name: sessions are stored under it.")
    return name or ""


def _policy(document: Document) -> str | Mapping[str, Any]:
    value = document.data.get("policy", "default")
    if isinstance(value, str | dict):
        return value
    problem = f"'policy' should be a policy's name or keys and values, but is {kind_of(value)}."
    document.report(("policy",), problem, "Write `policy: default`.")
    return "default"


def _encoder(document: Document) -> str | Endpoint | Reference | None:
    value, where = document.data.get("encoder"), ("encoder",)
    if not isinstance(value, dict) or "import" in value:
        return _place(document, where)
    given = {"url": "", "model": "", "key": ""}
    for key, written in value.items():
        if key not in given:
            document.report((*where, key), f"There is no key {key!r} here.", did_you_mean(key, [*given, "import"]))
        elif not isinstance(written, str):
            document.report((*where, key), f"{key!r} should be text, but is {kind_of(written)}.", "Put it in quotes.")
        else:
            given[key] = written
    missing = [key for key in ("url", "model") if not value.get(key)]
    if missing:
        fix = "Write a folder, `{url: …, model: …, key: ${NAME}}`, or `{import: module:attribute}`."
        document.report(where, f"The encoder has no {missing[0]!r}.", fix)
    return None if missing else Endpoint(given["url"], given["model"], given["key"], where)


def _run(document: Document) -> RunConfig:
    limits = _mapping(document, "limits")
    run = _mapping(document, "run")
    if "limits" in run:
        document.report(("run", "limits"), "Limits belong at the top of the file, not below 'run'.", "Move them to `limits:`.")
    checked = validated(document, ("limits",), Limits, limits) or Limits()
    config = validated(document, ("run",), RunConfig, {key: value for key, value in run.items() if key != "limits"})
    return (config or RunConfig()).model_copy(update={"limits": checked})


def _mapping(document: Document, key: str) -> dict[str, Any]:
    value = document.data.get(key)
    if isinstance(value, dict):
        return value
    if key in document.data:
        document.report((key,), f"{key!r} should be keys and values, but is {kind_of(value)}.", f"Write them below `{key}:`.")
    return {}


def _selectors(document: Document) -> dict[str, Reference]:
    references = {}
    for name, value in _mapping(document, "selectors").items():
        reference = read_reference(document, ("selectors", name), value)
        if reference is not None:
            references[name] = reference
    return references


def _place(document: Document, where: Where) -> str | Reference | None:
    value = document.data.get(str(where[0]))
    if isinstance(value, dict):
        return read_reference(document, where, value)
    return _text(document, where, None)
