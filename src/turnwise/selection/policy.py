"""Policies as data: the stages of a cascade, their options and thresholds, and the overrides for segments of callers."""

import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import JsonValue, ValidationError

from turnwise import matching
from turnwise.facts.errors import PolicyError
from turnwise.facts.fact import Fact
from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.eligibility import Eligible, eligible

_BRANCH = re.compile(r"(?:constrained-)?str|dict\[.*")
"""pydantic's name of a branch of a union, which says nothing to the policy's author."""
CONDITIONS = ("channel", "user_kind")
"""The message-context fields that a segment may test."""


class StageSpec(Fact):
    """One stage of a policy: a selector and its options."""

    selector: str
    """Name of a built-in selector, or `module:attribute` for a custom one."""
    options: dict[str, JsonValue] = {}
    """Options of the selector; missing ones take their defaults."""
    name: str | None = None
    """Name in the decision record, and the key of the stage's position in a fixed order.

    None = the selector's name, with `-2`, `-3` … for repeated selectors.
    """


class SegmentSpec(Fact):
    """Overrides for some callers (behaviour C18). A segment applies when every condition of `when` holds."""

    when: dict[str, str | tuple[str, ...]]
    """Conditions on `channel` and `user_kind`: one value or a list of values each."""
    options: dict[str, dict[str, JsonValue]] = {}
    """Options that replace the stages' own, by stage name."""
    default: str | None = None
    """Default agent for this segment; None = the policy's."""
    name: str | None = None
    """Name in the decision record; None = built from `when`."""

    @property
    def label(self) -> str:
        return self.name or ", ".join(f"{key}={_either(value)}" for key, value in sorted(self.when.items()))

    def applies(self, context: MessageContext) -> bool:
        """Returns whether every condition holds for this caller."""
        return all(
            getattr(context, key) == value or (isinstance(value, tuple) and getattr(context, key) in value)
            for key, value in self.when.items()
        )


class PolicySpec(Fact):
    """A cascade as data: an ordered list of stages, a default agent, and overrides by segment.

    The owner of a tool result always comes before all stages; a policy cannot change that.
    """

    name: str = "custom"
    stages: tuple[StageSpec, ...] = ()
    """Stages in order. The cascade stops at the first one that chooses an agent or asks to clarify."""
    default: str | None = None
    """Agent that answers when every stage abstains; None = the tree's root."""
    segments: tuple[SegmentSpec, ...] = ()
    """Overrides for some callers. The first segment that applies is used."""
    several: str | None = None
    """Agent for messages with requests for several agents.

    None = the chosen agent gets the message and does its part.
    """
    shadow: str | None = None
    """The name of a policy that decides, too, for comparison only; None = no shadow. It is not part of the fingerprint."""
    shadow_may_ask: bool = False
    """True if the shadow's stages may ask a service outside of the process, such as a model."""

    @property
    def general(self) -> str | None:
        """Returns the agent for small talk: the first small-talk stage's agent, else the default agent.

        None = the tree's root.
        """
        for stage in self.stages:
            named = stage.options.get({"contextual": "general", "smalltalk": "agent"}.get(stage.selector, ""))
            if isinstance(named, str):
                return named
        return self.default

    def stage_names(self) -> tuple[str, ...]:
        """Returns the stages' names, in order.

        Raises:
            PolicyError: Two stages have the same explicit name.
        """
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
        """Returns a copy with other options.

        Args:
            options: Options by stage name; each replaces the stage's option of that name.
            default: Another default agent; None = keep the policy's.

        Raises:
            PolicyError: A stage does not exist.
        """
        names = self.stage_names()
        refuse_unknown_stages(self, options)
        stages = tuple(
            stage.replace(options={**stage.options, **options.get(name, {})})
            for name, stage in zip(names, self.stages, strict=True)
        )
        return self.replace(stages=stages, default=default or self.default)


def refuse_unknown_stages(spec: PolicySpec, options: Mapping[str, object]) -> None:
    """Raises PolicyError when `options` names a stage that the policy does not have."""
    for stage in options:
        if stage not in spec.stage_names():
            known = ", ".join(spec.stage_names()) or "none"
            raise PolicyError(f"Policy {spec.name!r} has no stage {stage!r}.", fix=f"Its stages: {known}.")


def recorded_policy(name: str, description: Any) -> PolicySpec:
    """Returns the policy that `Cascade.description` describes, with all options written out.

    Raises:
        PolicyError: It is not such a description, or a newer release wrote it.
    """
    try:
        *segments, base = description["segments"]
        data = {
            "name": name,
            "stages": base["stages"],
            "default": base["default"],
            "several": description["several"],
            "segments": [_recorded_segment(each) for each in segments],
        }
    except (KeyError, TypeError, ValueError):
        raise PolicyError(f"The record of policy {name!r} cannot be read.", fix="Name a policy or a file instead.") from None
    return policy_from(data)


def _recorded_segment(segment: Mapping[str, Any]) -> dict[str, Any]:
    options = {stage["name"]: stage["options"] for stage in segment["stages"] if stage["options"]}
    return {"name": segment["segment"], "when": segment["when"], "default": segment["default"], "options": options}


def policy_from(data: Mapping[str, Any]) -> PolicySpec:
    """Parses a policy from plain data, such as parsed YAML. A stage may be just its selector's name.

    This checks the shape only. Creating a `Cascade` checks whether selectors and agents exist.

    Raises:
        PolicyError: The data is not a valid policy; the message names the place and the cause.
    """
    stages = data.get("stages", ())
    if isinstance(stages, list | tuple):
        stages = [{"selector": stage} if isinstance(stage, str) else stage for stage in stages]
    plain = {**data, "stages": stages}
    try:
        spec = PolicySpec.model_validate(plain, strict=False, extra="forbid")
    except ValidationError as problem:
        keys = ", ".join(f"`{name}`" for name in PolicySpec.model_fields)
        raise PolicyError(_first_mistake(problem), fix=f"A policy has {keys}.") from None
    spec.stage_names()
    return spec


def options_of(spec_name: str, stage: str, model: type[Fact], options: Mapping[str, JsonValue]) -> Any:
    """Parses a stage's options into the selector's options model.

    Raises:
        PolicyError: An option is unknown or invalid; the message names the stage, the option and the cause.
    """
    try:
        # JSON mode accepts a list for a tuple, but still rejects "0.7" as a number.
        return model.model_validate_json(json.dumps(dict(options), allow_nan=False), extra="forbid")
    except (TypeError, ValueError) as problem:
        cause = _first_mistake(problem) if isinstance(problem, ValidationError) else "an option is not plain data."
        known = ", ".join(model.model_fields) or "none"
        raise PolicyError(f"Policy {spec_name!r}, stage {stage!r}: {cause}", fix=f"Its options: {known}.") from None


def fingerprint(resolved: object) -> str:
    """Returns sixteen hexadecimal digits that identify plain data. The order of keys makes no difference."""
    plain = json.dumps(resolved, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(plain.encode()).hexdigest()[:16]


def _first_mistake(problem: ValidationError) -> str:
    mistake = problem.errors(include_url=False, include_context=False)[0]
    place = ".".join(part for part in map(str, mistake["loc"]) if not _BRANCH.fullmatch(part))
    if mistake["type"] == "extra_forbidden":
        return f"{place!r} is not known."
    return f"{place!r}: {mistake['msg']}." if place else f"{mistake['msg']}."


def _either(value: str | tuple[str, ...]) -> str:
    return value if isinstance(value, str) else "|".join(value)


SEVERAL = "several"
"""Method of a decision for the agent that handles such messages."""
_UNFIT = frozenset({"disabled", "inside_composite"})


def requested_agents(verdict: Verdict, request: SelectionRequest, server: str, roster: Eligible) -> Sequence[str]:
    """Returns the agents that the message has requests for; empty when it goes to one agent only.

    It is empty when the chosen agent waits for a reply, which this message may be, and when this caller may not reach
    `server`.
    """
    if request.occasion != "message" or verdict.agent in (None, server) or server not in roster.continuing:
        return ()
    others = [name for name in verdict.also if name in roster.names and name not in (verdict.agent, server)]
    if not others or verdict.agent is None or _is_waiting(verdict.agent, request):
        return ()
    return (verdict.agent, *dict.fromkeys(others))


def reason_for(agents: Sequence[str], verdict: Verdict) -> str:
    """Returns the reason for handling the requests together, followed by the verdict's own reason."""
    return f"The message asks {', '.join(agents[:-1])} and {agents[-1]} for something. {verdict.reason}"


def refuse_unfit_server(spec: PolicySpec, tree: AgentTree) -> None:
    """Raises PolicyError when the policy's `several` agent can never take a message."""
    if spec.several is None:
        return
    everybody = frozenset(role for card in tree for role in card.roles)
    why = next((each for each in eligible(tree, roles=everybody).excluded if each.agent == spec.several), None)
    if why is not None and why.rule in _UNFIT:
        raise PolicyError(
            f"Policy {spec.name!r}, 'several': {spec.several!r} can take no messages: {why.detail}.",
            fix="Name an agent that is enabled, and that no composite runs.",
        )


def _is_waiting(agent: str, request: SelectionRequest) -> bool:
    """Returns whether the agent, or an agent in an invocation that it leads, waits for a reply."""
    head = request.head
    return any(
        wait.kind == "reply" and agent in (asker, head.invocations[invocation_id].agent)
        for invocation_id, asker, wait in head.waiting()
    )


@functools.cache
def version() -> str:
    """Returns twelve hexadecimal digits that identify the selection rules and their trained weights.

    The digest covers this package's files and the small-talk weights, so it changes when any of them changes.
    """
    here, numbers = Path(__file__).parent, Path(matching.__file__).parent / "data"
    digest = hashlib.sha256()
    for path in sorted([*here.rglob("*.py"), *here.rglob("*.json"), *numbers.glob("*.json")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
