"""Builds the policy of a configuration file, and locates the errors of a policy in it."""

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from turnwise.config.app_file import ChangedPolicy, ExperimentSection, PolicyItem, SegmentSection, WrittenPolicy
from turnwise.config.document import Document, Where, read_document
from turnwise.config.part_entries import build_model
from turnwise.config.part_section import ModelOptions, stage_of
from turnwise.config.settings import Settings
from turnwise.config.validation import Section, validated
from turnwise.facts.errors import PolicyError, TurnwiseError
from turnwise.facts.hints import did_you_mean
from turnwise.ports.definitions import PolicyDefinition
from turnwise.ports.experiments import MAX_ARMS, Arm, Experiment
from turnwise.selection.named import NAMED, named_policy
from turnwise.selection.policy import PolicySpec, SegmentSpec

_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"")


class _PolicyFile(Section):
    policy: PolicyItem = None


def read_policy(settings: Settings) -> PolicySpec | None:
    """Builds the file's policy. Returns None after it reported the problems of its form.

    Does not check that selectors and agents exist.
    """
    return _build_policy(settings.document, settings.file.policy)


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
    read = validated(document.without({(key,) for key in document.data if key != "policy"}, lambda _: False), _PolicyFile)
    policy = _build_policy(document, read[0].policy) if read and not document.problems else None
    if policy is None:
        raise document.problems[0]
    return policy


ModelSpecs = Mapping[str, JsonValue]
"""The registered models that policies may name, as the configuration writes them, by name."""


def read_defined_policy(definition: PolicyDefinition, models: ModelSpecs) -> PolicySpec:
    """Builds the policy of a definition. It imports nothing: selectors and models are named, not written as paths.

    Raises:
        PolicyError: The first problem of its form. It does not check that selectors and agents exist.
    """
    named = f"policy {definition.name!r}"
    data = {"policy": _with_models(definition.policy, models, named)}
    document = Document(Path(named), data, {})
    read = validated(document, _PolicyFile)
    policy = _build_policy(document, read[0].policy) if read and not document.problems else None
    if policy is None:
        first = document.problems[0]
        raise PolicyError(f"The {named}: {first.problem.partition(': ')[2] or first.problem}", fix=first.fix)
    for stage in policy.stages:
        if ":" in stage.selector:
            raise PolicyError(
                f"The {named} names the selector {stage.selector!r} by an import path.",
                fix="Name it under `selectors:` in turnwise.yaml, and write that name.",
            )
    return policy


def _with_models(value: JsonValue, models: ModelSpecs, named: str) -> JsonValue:
    """Returns the value with each name of a model replaced by the registered model."""
    if isinstance(value, list):
        return [_with_models(each, models, named) for each in value]
    if not isinstance(value, dict):
        return value
    made = {key: _with_models(each, models, named) for key, each in value.items()}
    if "model" in made and not isinstance(value["model"], dict):
        name = value["model"]
        if not isinstance(name, str) or name not in models:
            raise PolicyError(
                f"The {named} uses the model {name!r}, which is not registered for policies.",
                fix="Register it under `definitions: models:` in turnwise.yaml, by name or URL.",
            )
        made["model"] = models[name]
    return made


def _build_policy(document: Document, item: str | ChangedPolicy | WrittenPolicy, at: Where = ("policy",)) -> PolicySpec | None:
    """Builds a policy and its models; None after reporting problems."""
    for where, model in _models(item, at):
        build_model(document, where, model)
    if document.has_problem(at):
        return None
    try:
        return named_policy(item) if isinstance(item, str) else _policy_of(item)
    except PolicyError as error:
        document.report_error(location_of_error(document, error, at), error)
        return None


def read_policies(settings: Settings) -> dict[str, PolicySpec]:
    """Builds the file's other policies, by name. Leaves out those with problems, after it reported them."""
    made = {}
    for name, item in settings.file.policies.items():
        policy = _build_policy(settings.document, item, ("policies", name))
        if policy is not None:
            made[name] = policy if isinstance(item, ChangedPolicy) and item.name else policy.replace(name=name)
    return made


def read_experiment(settings: Settings) -> Experiment | None:
    """Returns the file's experiment; None if there is none, or after it reported the problems."""
    section, document = settings.file.experiments, settings.document
    if section is None or document.has_problem(("experiments",)):
        return None
    if not 2 <= len(section.arms) <= MAX_ARMS:
        document.report(("experiments", "arms"), f"An experiment has 2 to {MAX_ARMS} arms.", "The first one is the control.")
        return None
    _refuse_unknown_policies(document, section, {*NAMED, *settings.file.policies})
    values = {name: getattr(section, name) for name in ("name", "unit", "metric", "alpha", "ripe_seconds", "paired")}
    try:
        arms = tuple(Arm(name=name, weight=arm.weight, policy=arm.policy) for name, arm in section.arms.items())
        return Experiment(arms=arms, least_units=section.stop.least_units, worse_by=section.stop.worse_by, **values)
    except ValidationError:
        fix = "Names have letters, digits, `.`, `_` and `-`, at most 64, and begin with a letter or digit."
        document.report(("experiments",), "An experiment or an arm has a name that cannot be used.", fix)
        return None


def stage_selector_paths(settings: Settings) -> Iterator[tuple[Where, str]]:
    """Yields the selectors that policies name by an import path, with their locations."""
    policies: dict[Where, Any] = {("policy",): settings.file.policy}
    policies |= {("policies", name): policy for name, policy in settings.file.policies.items()}
    for at, policy in policies.items():
        for index, stage in enumerate(policy.stages if isinstance(policy, WrittenPolicy) else ()):
            selector = stage_of(stage).selector
            if ":" in selector:
                yield (*at, "stages", index), selector


def _refuse_unknown_policies(document: Document, section: ExperimentSection, known: Collection[str]) -> None:
    for name, arm in section.arms.items():
        if arm.policy is not None and arm.policy not in known:
            where = ("experiments", "arms", name, "policy")
            document.report(where, f"There is no policy {arm.policy!r}.", did_you_mean(arm.policy, known))


def _policy_of(item: ChangedPolicy | WrittenPolicy) -> PolicySpec:
    """Returns a written policy, or a named one with changes."""
    segments = tuple(_segment(each) for each in item.segments)
    if isinstance(item, WrittenPolicy):
        stages = tuple(stage_of(stage) for stage in item.stages)
        return PolicySpec(**{**dict(item), "stages": stages, "segments": segments})
    policy = named_policy(item.use, options=_options(item), default=item.default)
    return policy.replace(
        name=item.name or policy.name,
        segments=segments,
        several=item.several,
        shadow=item.shadow,
        shadow_may_ask=item.shadow_may_ask,
    )


def _segment(section: SegmentSection) -> SegmentSpec:
    return SegmentSpec(**{**dict(section), "options": _options(section)})


def _options(section: ChangedPolicy | SegmentSection) -> dict[str, dict[str, JsonValue]]:
    dumped: dict[str, dict[str, JsonValue]] = section.model_dump(mode="json", exclude_unset=True).get("options", {})
    return dumped


def _models(item: str | ChangedPolicy | WrittenPolicy, at: Where) -> Iterator[tuple[Where, Any]]:
    """The language models of a policy, with their locations."""
    if isinstance(item, str):
        return
    if isinstance(item, WrittenPolicy):
        for index, stage in enumerate(item.stages):
            if isinstance(getattr(stage, "options", None), ModelOptions):
                yield (*at, "stages", index, "options", "model"), stage.options.model
    places: list[tuple[Where, ChangedPolicy | SegmentSection]] = [
        ((*at, "segments", index), segment) for index, segment in enumerate(item.segments)
    ]
    for where, section in [*places, *([(at, item)] if isinstance(item, ChangedPolicy) else [])]:
        for stage_name, options in section.options.items():
            if isinstance(options, ModelOptions):
                yield (*where, "options", stage_name, "model"), dict(options)["model"]


def location_of_error(document: Document, error: TurnwiseError, at: Where = ("policy",)) -> Where:
    """The most specific location below a policy that the error's message quotes; the policy itself if it quotes none."""
    quoted = [one or other for one, other in _QUOTED.findall(error.problem)]
    value: Any = document.data
    for step in at:
        value = value.get(step) if isinstance(value, dict) else None
    places = list(_places(value, at))
    for word in reversed(quoted):
        for text, where in places:
            if text == word:
                return where
    return at


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
