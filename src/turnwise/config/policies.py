"""Reads the policy of a configuration file, and locates the errors of a policy in it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnwise.config.document import read_document
from turnwise.config.model_entries import read_model
from turnwise.config.places import Document, Where
from turnwise.config.settings import Settings
from turnwise.config.validation import validated
from turnwise.facts.errors import PolicyError, TurnwiseError
from turnwise.facts.fact import Fact
from turnwise.selection.named import named_policy
from turnwise.selection.policy import PolicySpec, SegmentSpec

_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"")


class ChangedPolicy(Fact):
    """A named policy with changes: options by stage, the default agent, the agent for several requests in one message,
    segments.
    """

    use: str
    name: str | None = None
    options: dict[str, dict[str, Any]] = {}
    default: str | None = None
    segments: tuple[SegmentSpec, ...] = ()
    several: str | None = None


def read_policy(settings: Settings) -> PolicySpec | None:
    """Reads the file's policy. Returns None after it reported the problems of its form.

    Three forms: a name; `use: name` with `options` by stage, `default`, `several`, `segments`; or a policy written out, where a
    stage may be a selector's name alone. Does not check that selectors and agents exist.
    """
    return parse_policy(settings.document, settings.policy)


def read_policy_file(path: Path) -> PolicySpec:
    """Reads a policy from a separate file: the value of `policy`, or a mapping with that key.

    Raises:
        ConfigError: if the file is no YAML.
        PolicyError: for the first problem, with its line.
    """
    document = read_document(
        path, fix="Write `use: default` with what is to be different, or `stages:` with a list of selectors."
    )
    if "policy" not in document.data:
        document = document.below("policy")
    given = document.data["policy"]
    if isinstance(given, str | dict):
        policy = parse_policy(document, given)
    else:
        policy = None
        document.report(("policy",), "'policy' is neither a name nor keys and values.", "Write `policy: default`.", PolicyError)
    if policy is None or document.problems:
        raise document.problems[0]
    return policy


def parse_policy(document: Document, given: str | Mapping[str, Any]) -> PolicySpec | None:
    """Parses a policy that the document has under `policy`; see `read_policy`."""
    try:
        if isinstance(given, str):
            return named_policy(given)
        if "use" in given:
            return _policy_with_changes(document, given)
    except PolicyError as error:
        document.report_error(location_of_error(document, error), error)
        return None
    if not _are_models_valid(document, given):
        return None
    stages = given.get("stages", [])
    if isinstance(stages, list):
        stages = [{"selector": stage} if isinstance(stage, str) else stage for stage in stages]
    return validated(document, ("policy",), PolicySpec, {**given, "stages": stages}, PolicyError)


def _are_models_valid(document: Document, given: Mapping[str, Any]) -> bool:
    """Whether the models of `model` selectors are valid. Returns False after it reported the problems."""
    before = len(document.problems)
    for where, value in _model_options(given):
        read_model(document, where, value, own=False)
    return len(document.problems) == before


def _model_options(given: Mapping[str, Any]) -> Iterator[tuple[Where, Any]]:
    """Yields the `model` option of every stage that uses the `model` selector, with its location."""
    stages = given.get("stages")
    for index, stage in enumerate(stages if isinstance(stages, list) else []):
        if isinstance(stage, dict) and stage.get("selector") == "model":
            yield from _option(stage, ("policy", "stages", index, "options"))
    segments = given.get("segments")
    changes: list[tuple[Where, Any]] = [(("policy",), given)]
    changes += (
        [(("policy", "segments", index), each) for index, each in enumerate(segments)] if isinstance(segments, list) else []
    )
    for where, change in changes:
        options = change.get("options") if isinstance(change, dict) else None
        if isinstance(options, dict) and isinstance(options.get("model"), dict):
            yield from _option({"options": options["model"]}, (*where, "options", "model"))


def _option(holder: Mapping[str, Any], where: Where) -> Iterator[tuple[Where, Any]]:
    options = holder.get("options")
    if isinstance(options, dict) and "model" in options:
        yield (*where, "model"), options["model"]


def _policy_with_changes(document: Document, given: Mapping[str, Any]) -> PolicySpec | None:
    if not _are_models_valid(document, given):
        return None
    changed = validated(document, ("policy",), ChangedPolicy, given, PolicyError)
    if changed is None:
        return None
    policy = named_policy(changed.use, options=changed.options, default=changed.default)
    return policy.replace(name=changed.name or policy.name, segments=changed.segments, several=changed.several)


def location_of_error(document: Document, error: TurnwiseError) -> Where:
    """The most specific location below `policy` that the error's message quotes; the policy itself if it quotes none."""
    quoted = [one or other for one, other in _QUOTED.findall(error.problem)]
    places = list(_places(document.data.get("policy"), ("policy",)))
    for word in reversed(quoted):
        for text, where in places:
            if text == word:
                return where
    return ("policy",)


def _places(value: Any, where: Where) -> Iterator[tuple[str, Where]]:
    """Yields every key and text below a value, with its location."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield key, (*where, key)
            yield from _places(below, (*where, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*where, index))
    elif isinstance(value, str):
        yield value, where
