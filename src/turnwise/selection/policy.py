"""Policies as data: which selectors are asked in which order, with which thresholds, for whom."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue, ValidationError

from turnwise.facts.errors import PolicyError
from turnwise.facts.fact import Fact
from turnwise.facts.messages import MessageContext

CONDITIONS = ("channel", "user_kind")


class StageSpec(Fact):
    """One selector and its options.

    name: its name in the record, and the key of its place in an order; the selector's by default, with `-2`, `-3` for the
    second and third of a kind.
    """

    selector: str
    options: dict[str, JsonValue] = {}
    name: str | None = None


class SegmentSpec(Fact):
    """What differs for some callers (behaviour C18): it applies when every condition of `when` holds.

    when: `channel`, `user_kind`, each one value or a list of values. options: by a stage's name, options that replace the
    stage's own. default: another default agent. name: as the record shows it; made from `when` by default.
    """

    when: dict[str, str | tuple[str, ...]]
    options: dict[str, dict[str, JsonValue]] = {}
    default: str | None = None
    name: str | None = None

    @property
    def label(self) -> str:
        return self.name or ", ".join(f"{key}={_either(value)}" for key, value in sorted(self.when.items()))

    def applies(self, context: MessageContext) -> bool:
        """Whether every condition holds for this caller."""
        return all(
            getattr(context, key) == value or (isinstance(value, tuple) and getattr(context, key) in value)
            for key, value in self.when.items()
        )


class PolicySpec(Fact):
    """A cascade as data. stages: asked in order until one chooses or asks to clarify. default: the agent who answers when
    none does; None = the tree's root. segments: the first that applies counts. several: the agent for messages that ask
    several agents for something; None = they go to the agent that is chosen, who does its part.

    The owner of a tool result is asked before all stages; that cannot be changed.
    """

    name: str = "custom"
    stages: tuple[StageSpec, ...] = ()
    default: str | None = None
    segments: tuple[SegmentSpec, ...] = ()
    several: str | None = None

    @property
    def general(self) -> str | None:
        """The agent that its first stage for small talk names, else the default agent; None = the tree's root."""
        for stage in self.stages:
            named = stage.options.get({"contextual": "general", "smalltalk": "agent"}.get(stage.selector, ""))
            if isinstance(named, str):
                return named
        return self.default

    def stage_names(self) -> tuple[str, ...]:
        """The stages' names, in order; PolicyError when two stages were given the same."""
        names: list[str] = []
        for stage in self.stages:
            name, count = stage.name or stage.selector, 1
            while stage.name is None and name in names:
                count += 1
                name = f"{stage.selector}-{count}"
            if name in names:
                raise PolicyError(f"Policy {self.name!r} has two stages named {name!r}.", fix="Rename one of them.")
            names.append(name)
        return tuple(names)

    def with_options(self, options: Mapping[str, Mapping[str, JsonValue]], *, default: str | None = None) -> "PolicySpec":
        """The policy with these options, by stage's name, in place of its own; and, if given, another default agent.

        PolicyError for a stage that does not exist.
        """
        names = self.stage_names()
        refuse_unknown_stages(self, options)
        stages = tuple(
            stage.model_copy(update={"options": {**stage.options, **options.get(name, {})}})
            for name, stage in zip(names, self.stages, strict=True)
        )
        return self.model_copy(update={"stages": stages, "default": default or self.default})


def refuse_unknown_stages(spec: PolicySpec, options: Mapping[str, object]) -> None:
    """PolicyError when options are given for a stage that the policy does not have."""
    for stage in options:
        if stage not in spec.stage_names():
            known = ", ".join(spec.stage_names()) or "none"
            raise PolicyError(f"Policy {spec.name!r} has no stage {stage!r}.", fix=f"Its stages: {known}.")


def policy_from(data: Mapping[str, Any]) -> PolicySpec:
    """A policy from plain data, as YAML gives it. A stage may be its selector's name alone.

    PolicyError names the place and the cause; whether selectors and agents exist is checked when the cascade is made.
    """
    stages = data.get("stages", ())
    if isinstance(stages, list | tuple):
        stages = [{"selector": stage} if isinstance(stage, str) else stage for stage in stages]
    plain = {**data, "stages": stages}
    try:
        spec = PolicySpec.model_validate(plain, strict=False, extra="forbid")
    except ValidationError as problem:
        raise PolicyError(
            _first_mistake(problem), fix="A policy has `name`, `stages`, `default`, `several` and `segments`."
        ) from None
    spec.stage_names()
    return spec


def options_of(spec_name: str, stage: str, model: type[Fact], options: Mapping[str, JsonValue]) -> Any:
    """The options as the selector's own type. PolicyError names the stage, the option and the cause."""
    try:
        # As JSON, a list may stand for a tuple, while "0.7" still is no number.
        return model.model_validate_json(json.dumps(dict(options), allow_nan=False), extra="forbid")
    except (TypeError, ValueError) as problem:
        cause = _first_mistake(problem) if isinstance(problem, ValidationError) else "an option is no plain data."
        known = ", ".join(model.model_fields) or "none"
        raise PolicyError(f"Policy {spec_name!r}, stage {stage!r}: {cause}", fix=f"Its options: {known}.") from None


def fingerprint(resolved: object) -> str:
    """Sixteen hexadecimal digits that identify this plain data, whatever the order of its keys."""
    plain = json.dumps(resolved, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def _first_mistake(problem: ValidationError) -> str:
    mistake = problem.errors(include_url=False, include_context=False)[0]
    place = ".".join(str(part) for part in mistake["loc"])
    if mistake["type"] == "extra_forbidden":
        return f"{place!r} is not known."
    return f"{place!r}: {mistake['msg']}." if place else f"{mistake['msg']}."


def _either(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else "|".join(value)
