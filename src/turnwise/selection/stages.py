"""Builds the selectors of a policy from its data, and reports every configuration error at load time."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, JsonValue

from turnwise.facts.errors import ConfigError, PolicyError
from turnwise.facts.fact import Fact
from turnwise.facts.tree import AgentTree
from turnwise.matching.patterns import PatternIndex
from turnwise.models.by_name import ModelEndpoint, model_of
from turnwise.ports.encoder import Encoder
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection import clarify, semantic, smalltalk
from turnwise.selection import model as model_stage
from turnwise.selection.contextual import NOBODY
from turnwise.selection.conversational import Conversational
from turnwise.selection.fixed import CONFIDENCE, Default, Direct, Identity, Iterative
from turnwise.selection.meaning import Meaning
from turnwise.selection.patterns import THRESHOLD, Patterns, Yields, pattern_index, pattern_labels
from turnwise.selection.policy import PolicySpec, StageSpec, options_of
from turnwise.selection.resume import AWAITED, HoldOpenQuestion, Resume, Rule
from turnwise.selection.semantic import NoTextSelector, Score, Semantic, has_words
from turnwise.selection.smalltalk import SmallTalkSelector

Factory = Callable[..., Selector]
"""Creates a custom selector. Called with the tree, and the stage's options as keyword arguments."""

_NAMES_SHOWN = 20


class Stage(NamedTuple):
    """A selector with its place in a policy."""

    name: str
    """The stage's name in the policy."""
    kind: str
    """The selector's name in the policy."""
    selector: Selector
    options: JsonValue
    """All options, with defaults filled in."""

    def asks(self, request: SelectionRequest) -> bool:
        """Returns whether the selector will make a call outside this process for this request."""
        asks = getattr(self.selector, "asks", None)
        try:
            return asks is not None and bool(asks(request))
        except Exception:
            return True  # `select` will fail too, and the decision record will show it


class BuildContext(NamedTuple):
    """Shared inputs for building selectors."""

    policy: str
    stages: Mapping[str, StageSpec]
    """All stages of the policy, by name."""
    tree: AgentTree
    default: str | None
    """The default agent; None = the tree's root."""
    custom: Mapping[str, Factory]
    patterns: Callable[[], PatternIndex]
    """Returns the pattern index; created on first call, then shared by all stages."""
    meaning: Callable[[], Meaning]
    """Returns the `Meaning`; created on first call, then shared by all stages."""
    made: Callable[[], Meaning | None]
    """Returns the `Meaning` if a stage has requested it, else None."""


def _fraction(default: float | None) -> Any:
    return Field(default=default, ge=0.0, le=1.0, allow_inf_nan=False)


class _None(Fact):
    pass


class _Lead(Fact):
    lead: str | None = None


class _Order(Fact):
    order: tuple[str, ...] = ()


class _Patterns(Fact):
    threshold: float = _fraction(THRESHOLD)
    margin: float | None = _fraction(None)
    yields: Yields | None = None


class _Semantic(Fact):
    threshold: float = _fraction(semantic.THRESHOLD)
    top: int = Field(default=semantic.TOP, ge=1)
    margin: float | None = _fraction(None)
    novelty: float | None = _fraction(None)
    score: Score = "similarity"


class _SmallTalk(Fact):
    agent: str | None = None
    threshold: float = _fraction(smalltalk.THRESHOLD)


class _Contextual(Fact):
    general: str | None = None
    nobody: float = _fraction(NOBODY)
    awaited: float = _fraction(AWAITED)
    margin: float = _fraction(0.0)


class _Clarify(Fact):
    margin: float = _fraction(clarify.MARGIN)
    evidence: float = _fraction(clarify.EVIDENCE)
    choices: int = Field(default=clarify.CHOICES, ge=2, le=9)
    question: str = Field(default=clarify.QUESTION, min_length=1, max_length=500)
    only: Literal["answer", "question"] | None = None
    stage: str | None = None


class _Resume(Fact):
    rule: Rule = "tree"
    only: Literal["awaiting"] | None = None
    novelty: float | None = _fraction(None)
    stage: str | None = None


class _Endpoint(Fact):
    model: str
    url: str
    key: str = Field(default="", exclude=True, repr=False)

    def spec(self) -> ModelEndpoint:
        return ModelEndpoint(self.model, self.url, self.key)


class _Model(Fact):
    model: str | _Endpoint | tuple[str | _Endpoint, ...]
    margin: float = _fraction(model_stage.MARGIN)
    choices: int = Field(default=model_stage.CHOICES, ge=2, le=50)
    seconds: float = Field(default=model_stage.SECONDS, gt=0, allow_inf_nan=False)
    confidence: float = _fraction(model_stage.CONFIDENCE)
    stage: str | None = None


class _Default(Fact):
    agent: str | None = None
    confidence: float = _fraction(CONFIDENCE)


_Build = Callable[[BuildContext, str, Any], Selector]


def _patterns(site: BuildContext, name: str, given: Any) -> Selector:
    options = given.model_dump()
    if given.yields == "asks" and not has_words(site.tree, site.default):
        options["yields"] = "waits"  # no later stage could tell an answer from a new request
    return Patterns(site.patterns(), labels=pattern_labels(site.tree), name=name, **options)


def _semantic(site: BuildContext, name: str, given: Any) -> Selector:
    if not has_words(site.tree, site.default):
        return NoTextSelector(name)
    return Semantic(site.meaning(), name=name, **given.model_dump())


def _smalltalk(site: BuildContext, name: str, given: Any) -> Selector:
    return SmallTalkSelector(site.meaning(), agent=given.agent or site.default, threshold=given.threshold, name=name)


def _contextual(site: BuildContext, name: str, given: Any) -> Selector:
    if not has_words(site.tree, site.default):
        return NoTextSelector(name, () if given.general is None else (given.general,))
    from turnwise.selection.contextual.selector import Contextual

    options = {"general": given.general or site.default, "nobody": given.nobody, "margin": given.margin, "name": name}
    return HoldOpenQuestion(Contextual(site.meaning(), site.patterns(), **options), awaited=given.awaited)


def _clarify(site: BuildContext, name: str, given: Any) -> Selector:
    meaning = site.meaning if given.only != "question" and has_words(site.tree, site.default) else None
    if meaning:
        meaning()  # registers it, so that `prepare` includes it before the first message
    nobody = clarify.NOBODY if given.stage is None else min(clarify.NOBODY, _nobody_of(site, given.stage) or 1.0)
    return clarify.Clarify(
        meaning=meaning, patterns=site.patterns(), default=site.default, nobody=nobody, name=name, **given.model_dump()
    )


def _model(site: BuildContext, name: str, given: Any) -> Selector:
    written = given.model if isinstance(given.model, tuple) else (given.model,)
    asked = model_of([each if isinstance(each, str) else each.spec() for each in written])
    nobody = model_stage.NOBODY if given.stage is None else min(model_stage.NOBODY, _nobody_of(site, given.stage) or 1.0)
    return model_stage.ModelSelector(asked, nobody=nobody, name=name, **given.model_dump(exclude={"model"}))


def _resume(site: BuildContext, name: str, given: Any) -> Selector:
    bars = [] if given.novelty is None else [given.novelty]
    if given.stage is not None:
        nobody = _nobody_of(site, given.stage)
        if nobody is None:
            problem = f"Policy {site.policy!r}, stage {name!r}, 'stage': {given.stage!r} is no stage that goes by `nobody`."
            raise PolicyError(problem, fix="Name a `contextual` stage.")
        bars.append(nobody)
    return Resume(rule=given.rule, only=given.only, novelty=min(bars, default=None), name=name)


def _nobody_of(site: BuildContext, name: str) -> float | None:
    """Returns the novelty limit of a `contextual` stage; None for any other or unknown stage."""
    stage = site.stages.get(name)
    if stage is None or stage.selector != "contextual":
        return None
    return float(options_of(site.policy, name, _Contextual, stage.options).nobody)


_BUILT_IN: Mapping[str, tuple[type[Fact], _Build]] = {
    "direct": (_None, lambda _site, name, _given: Direct(name=name)),
    "patterns": (_Patterns, _patterns),
    "semantic": (_Semantic, _semantic),
    "smalltalk": (_SmallTalk, _smalltalk),
    "contextual": (_Contextual, _contextual),
    "model": (_Model, _model),
    "clarify": (_Clarify, _clarify),
    "resume": (_Resume, _resume),
    "identity": (_Lead, lambda site, name, given: Identity(given.lead or site.default, name=name)),
    "iterative": (_Order, lambda _site, name, given: Iterative(given.order, name=name)),
    "conversational": (_Lead, lambda site, name, given: Conversational(given.lead or site.default, name=name)),
    "default": (
        _Default,
        lambda site, name, given: Default(given.agent or site.default, confidence=given.confidence, name=name),
    ),
}
BUILT_IN = tuple(_BUILT_IN)
BY_MEANING = frozenset({"semantic", "smalltalk", "contextual"})
"""Selectors that need the vector of every message."""


def build_context(
    spec: PolicySpec, tree: AgentTree, custom: Mapping[str, Factory], meaning: Callable[[], Meaning] | None = None
) -> BuildContext:
    """Creates the build context of a policy. Patterns and meaning are created once, when a stage first needs them.

    Args:
        spec: The policy.
        tree: The agents.
        custom: Factories of custom selectors, by name.
        meaning: Creates the `Meaning`; None = with the bundled encoder.

    Raises:
        PolicyError: A custom selector has the name of a built-in one.
    """
    for name in custom:
        if name in _BUILT_IN:
            raise PolicyError(f"A selector of your own is named {name!r}, as a built-in one.", fix="Give it another name.")
    made: list[Meaning] = []

    def the_meaning() -> Meaning:
        if not made:
            made.append(meaning() if meaning else meaning_of(tree, default=spec.default))
        return made[0]

    index = cache(lambda: pattern_index(tree))
    stages = dict(zip(spec.stage_names(), spec.stages, strict=True))
    return BuildContext(spec.name, stages, tree, spec.default, custom, index, the_meaning, lambda: made[0] if made else None)


def meaning_of(
    tree: AgentTree, encoder: Encoder | None = None, keep: Path | None = None, *, default: str | None = None
) -> Meaning:
    """Creates a `Meaning` for the tree. `encoder` None = the bundled one; the other arguments are those of `Meaning`."""
    if encoder is None:
        from turnwise.matching.encoder.onnx_encoder import OnnxEncoder

        encoder = OnnxEncoder()
    return Meaning(tree, encoder, keep, default=default)


def build(site: BuildContext, name: str, spec: StageSpec) -> Stage:
    """Builds one stage.

    Raises:
        PolicyError: The selector or an agent is unknown, or an option is invalid.
        PatternError: A pattern is invalid.
    """
    if spec.selector in _BUILT_IN:
        model, make = _BUILT_IN[spec.selector]
        given = options_of(site.policy, name, model, spec.options)
        options: JsonValue = given.model_dump(mode="json")
        place = f"stage {name!r}"
        for field in ("lead", "agent", "general"):
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


def refuse_unknown_agents(site: BuildContext, place: str, names: tuple[str | None, ...]) -> None:
    """Raises PolicyError when one of the names, None aside, is not an agent of the tree."""
    for name in names:
        if name is not None and name not in site.tree:
            every = [card.name for card in site.tree]
            more = f" and {len(every) - _NAMES_SHOWN} more" if len(every) > _NAMES_SHOWN else ""
            raise PolicyError(
                f"Policy {site.policy!r}, {place}: there is no agent {name!r}.",
                fix=f"Known agents: {', '.join(every[:_NAMES_SHOWN])}{more}.",
            )


def _own(site: BuildContext, name: str, spec: StageSpec, factory: Factory) -> Selector:
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
