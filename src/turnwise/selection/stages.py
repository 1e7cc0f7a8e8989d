"""From a policy's data to selectors that can be asked. Everything that can be wrong with it is found here."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import Field, JsonValue

from turnwise.facts.errors import ConfigError, PolicyError
from turnwise.facts.fact import Fact
from turnwise.facts.tree import AgentTree
from turnwise.matching.patterns import PatternIndex
from turnwise.ports.selector import Selector
from turnwise.selection.conversational import Conversational
from turnwise.selection.default import CONFIDENCE, Default
from turnwise.selection.direct import Direct
from turnwise.selection.identity import Identity
from turnwise.selection.iterative import Iterative
from turnwise.selection.patterns import THRESHOLD, Patterns, pattern_index, pattern_labels
from turnwise.selection.policy import PolicySpec, StageSpec, options_of
from turnwise.selection.resume import Resume, Rule

Factory = Callable[..., Selector]
"""Makes a user's own selector: called with the tree and the stage's options as keywords."""

_NAMES_SHOWN = 20


class Stage(NamedTuple):
    """A selector under its name in the policy; `kind` is what the policy calls it, `options` have all defaults filled in."""

    name: str
    kind: str
    selector: Selector
    options: JsonValue


class Site(NamedTuple):
    """What selectors are built from. default: who answers when nobody else does; None = the root."""

    policy: str
    tree: AgentTree
    default: str | None
    custom: Mapping[str, Factory]
    patterns: Callable[[], PatternIndex]


class _None(Fact):
    pass


class _Lead(Fact):
    lead: str | None = None


class _Order(Fact):
    order: tuple[str, ...] = ()


class _Patterns(Fact):
    threshold: float = Field(default=THRESHOLD, ge=0.0, le=1.0, allow_inf_nan=False)
    margin: float | None = Field(default=None, ge=0.0, le=1.0, allow_inf_nan=False)


class _Resume(Fact):
    rule: Rule = "tree"
    only: Literal["awaiting"] | None = None


class _Default(Fact):
    agent: str | None = None
    confidence: float = Field(default=CONFIDENCE, ge=0.0, le=1.0, allow_inf_nan=False)


_Build = Callable[[Site, str, Any], Selector]
_BUILT_IN: Mapping[str, tuple[type[Fact], _Build]] = {
    "direct": (_None, lambda _site, name, _given: Direct(name=name)),
    "patterns": (
        _Patterns,
        lambda site, name, given: Patterns(site.patterns(), labels=pattern_labels(site.tree), name=name, **given.model_dump()),
    ),
    "resume": (_Resume, lambda _site, name, given: Resume(rule=given.rule, only=given.only, name=name)),
    "identity": (_Lead, lambda site, name, given: Identity(given.lead or site.default, name=name)),
    "iterative": (_Order, lambda _site, name, given: Iterative(given.order, name=name)),
    "conversational": (_Lead, lambda site, name, given: Conversational(given.lead or site.default, name=name)),
    "default": (
        _Default,
        lambda site, name, given: Default(given.agent or site.default, confidence=given.confidence, name=name),
    ),
}
BUILT_IN = tuple(_BUILT_IN)


def site_of(spec: PolicySpec, tree: AgentTree, custom: Mapping[str, Factory]) -> Site:
    """The site of a policy; the patterns are compiled once, when the first stage asks. PolicyError: a built-in's name."""
    for name in custom:
        if name in _BUILT_IN:
            raise PolicyError(f"A selector of your own is named {name!r}, as a built-in one.", fix="Give it another name.")
    made: list[PatternIndex] = []

    def index() -> PatternIndex:
        if not made:
            made.append(pattern_index(tree))
        return made[0]

    return Site(spec.name, tree, spec.default, custom, index)


def build(site: Site, name: str, spec: StageSpec) -> Stage:
    """The stage. PolicyError: no such selector, a bad option, an unknown agent. PatternError: a bad pattern."""
    if spec.selector in _BUILT_IN:
        model, make = _BUILT_IN[spec.selector]
        given = options_of(site.policy, name, model, spec.options)
        options: JsonValue = given.model_dump(mode="json")
        place = f"stage {name!r}"
        for field in ("lead", "agent"):
            refuse_unknown_agents(site, f"{place}, {field!r}", (getattr(given, field, None),))
        refuse_unknown_agents(site, f"{place}, 'order'", getattr(given, "order", ()))
        return Stage(name, spec.selector, make(site, name, given), options)
    factory = site.custom.get(spec.selector)
    if factory is None:
        known = ", ".join((*_BUILT_IN, *site.custom))
        raise PolicyError(
            f"Policy {site.policy!r}, stage {name!r}: there is no selector {spec.selector!r}.",
            fix=f"Known selectors: {known}. One of your own is written `module:attribute`.",
        )
    return Stage(name, spec.selector, _own(site, name, spec, factory), dict(spec.options))


def refuse_unknown_agents(site: Site, place: str, names: tuple[str | None, ...]) -> None:
    """PolicyError when one of the names (None aside) is no agent of the tree."""
    for name in names:
        if name is not None and name not in site.tree:
            every = [card.name for card in site.tree]
            more = f" and {len(every) - _NAMES_SHOWN} more" if len(every) > _NAMES_SHOWN else ""
            raise PolicyError(
                f"Policy {site.policy!r}, {place}: there is no agent {name!r}.",
                fix=f"Known agents: {', '.join(every[:_NAMES_SHOWN])}{more}.",
            )


def _own(site: Site, name: str, spec: StageSpec, factory: Factory) -> Selector:
    where = f"Policy {site.policy!r}, stage {name!r}: the selector {spec.selector!r}"
    try:
        selector = factory(site.tree, **spec.options)
    except ConfigError:
        raise
    except Exception as problem:
        fix = f"It is called with the tree and these options: {', '.join(spec.options) or 'none'}."
        raise PolicyError(f"{where} could not be made: it raised {type(problem).__name__}: {problem}", fix=fix) from problem
    if not inspect.iscoroutinefunction(getattr(selector, "select", None)) or not hasattr(selector, "name"):
        raise PolicyError(f"{where} is no selector.", fix="It needs a `name` and `async def select(self, request)`.")
    return selector
