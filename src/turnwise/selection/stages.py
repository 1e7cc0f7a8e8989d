"""Builds the selectors of a policy from its data, and reports every configuration error at load time."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pydantic import Field, JsonValue

from turnwise.facts.errors import ConfigError, PolicyError
from turnwise.facts.fact import Fact
from turnwise.facts.texts import Texts
from turnwise.facts.tree import AgentTree
from turnwise.matching.patterns import PatternIndex
from turnwise.models.by_name import ModelEndpoint, model_of
from turnwise.ports.encoder import Encoder
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection import clarify, model as model_stage, semantic
from turnwise.selection.contextual import NOBODY
from turnwise.selection.conversational import Conversational
from turnwise.selection.fixed import CONFIDENCE, Default, Direct, Identity, Iterative
from turnwise.selection.meaning import Meaning
from turnwise.selection.patterns import THRESHOLD, Patterns, Yields, pattern_index, pattern_labels
from turnwise.selection.policy import PolicySpec, StageSpec, options_of
from turnwise.selection.resume import AWAITED_CONFIDENCE, HoldOpenQuestion, Resume, Rule
from turnwise.selection.semantic import NoTextSelector, Score, Semantic, SmallTalkSelector, has_words

if TYPE_CHECKING:
    from turnwise.matching.disk_cache import IndexCache

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


@dataclass(frozen=True, slots=True)
class BuildContext:
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
    made_patterns: Callable[[], PatternIndex | None]
    """Returns the pattern index if a stage has requested it, else None."""


def _fraction(default: float | None) -> Any:
    return Field(default=default, ge=0.0, le=1.0, allow_inf_nan=False)


def _log_odds(most: float) -> Any:
    return Field(default=0.0, ge=-most, le=most, allow_inf_nan=False)


class _NoOptions(Fact):
    pass


class _LeadOptions(Fact):
    lead: str | None = None
    """The agent to choose when no other is named; None means the team's lead, or the policy's default agent."""


class _OrderOptions(Fact):
    order: tuple[str, ...] = ()
    """The agents, in the order in which they answer. Required."""


class _PatternsOptions(Fact):
    threshold: float = _fraction(THRESHOLD)
    """The lowest confidence of a match that decides, 0 to 1."""
    margin: float | None = _fraction(None)
    """The lead that the best match needs over the next, 0 to 1; None abstains when several match."""
    yields: Yields | None = None
    """Which agent keeps the message despite a match: `waits` = one that waits for a reply, `asks` = also one that has just
    asked; None = neither.
    """


class _SemanticOptions(Fact):
    threshold: float = _fraction(semantic.THRESHOLD)
    """The score that the best agent has to exceed, 0 to 1."""
    top: int = Field(default=semantic.TOP, ge=1)
    """How many of the best agents are recorded as candidates."""
    margin: float | None = _fraction(None)
    """The lead that the best agent needs over the next, 0 to 1; None needs none."""
    novelty: float | None = _fraction(None)
    """Abstains when the probability of out of scope is higher than this, 0 to 1; None never does."""
    score: Score = "similarity"
    """The value to compare with the threshold: the similarity of the nearest phrases, or the calibrated probability."""


class _SmallTalkOptions(Fact):
    agent: str | None = None
    """The agent for small talk; None means the policy's default agent."""
    threshold: float = _fraction(semantic.THRESHOLD)
    """The lowest score of small talk, 0 to 1."""


class _ContextualOptions(Fact):
    general: str | None = None
    """The agent for small talk; None means the policy's default agent."""
    nobody: float = _fraction(NOBODY)
    """Abstains when the probability of out of scope is higher than this, 0 to 1."""
    awaited: float = _fraction(AWAITED_CONFIDENCE)
    """The confidence needed to leave an agent that waits for a reply, 0 to 1."""
    margin: float = _fraction(0.0)
    """Abstains when the two best agents are nearer to each other than this, 0 to 1."""
    ties: Literal["others", "all"] = "others"
    """Which of these ties it leaves to later stages: those `others` than with the active agent, or `all`."""
    stay: float = _log_odds(3.0)
    """Added to the log-odds of the active agent, -3 to 3; 0 is the model as it is shipped."""
    back: float = _log_odds(3.0)
    """Added to the log-odds of agents that spoke before in the conversation, -3 to 3."""
    message: float = _log_odds(1.0)
    """How much more the message alone counts during a conversation, -1 to 1."""
    conversation: float = _log_odds(1.0)
    """How much more all recent messages together count, -1 to 1."""


class _ClarifyOptions(Fact):
    margin: float = _fraction(clarify.MARGIN)
    """Asks when agents are within this distance of the best, 0 to 1."""
    evidence: float = _fraction(clarify.EVIDENCE)
    """The lowest score of the best agent for a question, 0 to 1."""
    choices: int = Field(default=clarify.CHOICES, ge=2, le=9)
    """The most agents that a question offers."""
    question: Texts = clarify.QUESTION
    """The question's first line: a text, or texts by language, `{other: …, de: …}`."""
    only: Literal["answer", "question"] | None = None
    """`answer` only reads answers to a question, `question` only asks; None does both."""
    stage: str | None = None
    """The stage that gives the candidates; None means the last one that has any."""


class _ResumeOptions(Fact):
    rule: Rule = "tree"
    """Which agents may continue: by the permissions of the `tree`, or by the rule of `adk`."""
    only: Literal["awaiting"] | None = None
    """`awaiting` resumes only an agent that waits for a reply; None resumes any."""
    novelty: float | None = _fraction(None)
    """Does not resume when an earlier stage found out of scope likelier than this, 0 to 1; None always may."""
    stage: str | None = None
    """A `contextual` stage; does not resume when that stage found the message out of scope."""


class _EndpointOptions(Fact):
    model: str
    """The model's name at the service."""
    url: str
    """The base URL of an OpenAI-compatible service."""
    key: str = Field(default="", exclude=True, repr=False)
    """The API key; empty sends none."""

    def spec(self) -> ModelEndpoint:
        return ModelEndpoint(self.model, self.url, self.key)


class _ModelOptions(Fact):
    model: str | _EndpointOptions | tuple[str | _EndpointOptions, ...]
    """The language model, or a list of models that are tried in order."""
    margin: float = _fraction(model_stage.MARGIN)
    """The model is asked about agents within this distance of the best, 0 to 1."""
    choices: int = Field(default=model_stage.CHOICES, ge=2, le=50)
    """The most agents that the model chooses from."""
    seconds: float = Field(default=model_stage.SECONDS, gt=0, allow_inf_nan=False)
    """How long the model may take, in seconds."""
    kept: int = Field(default=model_stage.KEPT, ge=0, le=100_000)
    """How many answers are kept in memory for equal questions; 0 keeps none."""
    confidence: float = _fraction(model_stage.CONFIDENCE)
    """The confidence that a choice of the model gets, 0 to 1."""
    stage: str | None = None
    """The stage that gives the candidates; None means the last one that has any."""


class _DefaultOptions(Fact):
    agent: str | None = None
    """The agent that answers; None means the policy's default agent."""
    confidence: float = _fraction(CONFIDENCE)
    """The confidence on record, 0 to 1."""


_Build = Callable[[BuildContext, str, Any], Selector]


def _patterns(inputs: BuildContext, name: str, opts: Any) -> Selector:
    options = opts.model_dump()
    if opts.yields == "asks" and not has_words(inputs.tree, inputs.default):
        options["yields"] = "waits"  # no later stage could tell an answer from a new request
    return Patterns(inputs.patterns(), labels=pattern_labels(inputs.tree), name=name, **options)


def _semantic(inputs: BuildContext, name: str, opts: Any) -> Selector:
    if not has_words(inputs.tree, inputs.default):
        return NoTextSelector(name)
    return Semantic(inputs.meaning(), name=name, **opts.model_dump())


def _smalltalk(inputs: BuildContext, name: str, opts: Any) -> Selector:
    return SmallTalkSelector(inputs.meaning(), agent=opts.agent or inputs.default, threshold=opts.threshold, name=name)


def _contextual(inputs: BuildContext, name: str, opts: Any) -> Selector:
    """Builds the `contextual` stage. Agents without words get a selector that does not match by meaning."""
    if not has_words(inputs.tree, inputs.default):
        return NoTextSelector(name, () if opts.general is None else (opts.general,))
    from turnwise.selection.contextual.selector import Contextual
    from turnwise.selection.contextual.trained_model import Adaptation, load_shipped

    model = load_shipped().adapted(Adaptation(opts.stay, opts.back, opts.message, opts.conversation))
    options = {"general": opts.general or inputs.default, "nobody": opts.nobody, "margin": opts.margin, "name": name}
    options["ties"] = opts.ties
    return HoldOpenQuestion(Contextual(inputs.meaning(), inputs.patterns(), model=model, **options), awaited=opts.awaited)


def _clarify(inputs: BuildContext, name: str, opts: Any) -> Selector:
    """Builds the `clarify` stage, with the limit for out of scope of the stage that it follows."""
    meaning = inputs.meaning if opts.only != "question" and has_words(inputs.tree, inputs.default) else None
    if meaning:
        meaning()  # registers it, so that `prepare` includes it before the first message
    nobody = clarify.MAX_NOVELTY if opts.stage is None else min(clarify.MAX_NOVELTY, _limit_of(inputs, opts.stage) or 1.0)
    return clarify.Clarify(
        meaning=meaning,
        patterns=inputs.patterns(),
        default=inputs.default,
        nobody=nobody,
        languages=lambda: made.languages if (made := inputs.made()) is not None else None,
        name=name,
        **opts.model_dump(),
    )


def _model(inputs: BuildContext, name: str, opts: Any) -> Selector:
    """Builds the `model` stage, with the limit for out of scope of the stage that it follows."""
    models = opts.model if isinstance(opts.model, tuple) else (opts.model,)
    model_adapter = model_of([each if isinstance(each, str) else each.spec() for each in models])
    nobody = (
        model_stage.MAX_NOVELTY if opts.stage is None else min(model_stage.MAX_NOVELTY, _limit_of(inputs, opts.stage) or 1.0)
    )
    return model_stage.ModelSelector(model_adapter, nobody=nobody, name=name, **opts.model_dump(exclude={"model"}))


def _resume(inputs: BuildContext, name: str, opts: Any) -> Selector:
    """Builds the `resume` stage. Raises PolicyError if `stage` names no `contextual` stage."""
    limits = [] if opts.novelty is None else [opts.novelty]
    if opts.stage is not None:
        nobody = _limit_of(inputs, opts.stage)
        if nobody is None:
            problem = f"Policy {inputs.policy!r}, stage {name!r}, 'stage': {opts.stage!r} is not a `contextual` stage."
            raise PolicyError(problem, fix="Name a `contextual` stage.")
        limits.append(nobody)
    return Resume(rule=opts.rule, only=opts.only, novelty=min(limits, default=None), name=name)


def _limit_of(inputs: BuildContext, name: str) -> float | None:
    """Returns the novelty limit of a `contextual` stage; None for any other or unknown stage."""
    stage = inputs.stages.get(name)
    if stage is None or stage.selector != "contextual":
        return None
    return float(options_of(inputs.policy, name, _ContextualOptions, stage.options).nobody)


_BUILT_IN: Mapping[str, tuple[type[Fact], _Build]] = {
    "direct": (_NoOptions, lambda _inputs, name, _opts: Direct(name=name)),
    "patterns": (_PatternsOptions, _patterns),
    "semantic": (_SemanticOptions, _semantic),
    "smalltalk": (_SmallTalkOptions, _smalltalk),
    "contextual": (_ContextualOptions, _contextual),
    "model": (_ModelOptions, _model),
    "clarify": (_ClarifyOptions, _clarify),
    "resume": (_ResumeOptions, _resume),
    "identity": (_LeadOptions, lambda inputs, name, opts: Identity(opts.lead or inputs.default, name=name)),
    "iterative": (_OrderOptions, lambda _inputs, name, opts: Iterative(opts.order, name=name)),
    "conversational": (_LeadOptions, lambda inputs, name, opts: Conversational(opts.lead or inputs.default, name=name)),
    "default": (
        _DefaultOptions,
        lambda inputs, name, opts: Default(opts.agent or inputs.default, confidence=opts.confidence, name=name),
    ),
}
BUILT_IN = tuple(_BUILT_IN)
STAGE_OPTIONS: Mapping[str, type[Fact]] = {name: options for name, (options, _) in _BUILT_IN.items()}
"""The options of the built-in selectors, by name."""
BY_MEANING = frozenset({"semantic", "smalltalk", "contextual"})
"""Selectors that need the vector of every message."""


def build_context(
    spec: PolicySpec,
    tree: AgentTree,
    custom: Mapping[str, Factory],
    meaning: Callable[[], Meaning] | None = None,
    *,
    patterns: PatternIndex | None = None,
) -> BuildContext:
    """Creates the build context of a policy. Patterns and meaning are created once, when a stage first needs them.

    Args:
        spec: The policy.
        tree: The agents.
        custom: Factories of custom selectors, by name.
        meaning: Creates the `Meaning`; None = with the bundled encoder.
        patterns: The pattern index of earlier agents.

    Raises:
        PolicyError: A custom selector has the name of a built-in one.
    """
    for name in custom:
        if name in _BUILT_IN:
            raise PolicyError(f"A custom selector is named {name!r}, as a built-in one.", fix="Give it another name.")
    made: list[Meaning] = []

    def get_meaning() -> Meaning:
        if not made:
            made.append(meaning() if meaning else meaning_of(tree, default=spec.default))
        return made[0]

    indexes: list[PatternIndex] = []

    def get_patterns() -> PatternIndex:
        if not indexes:
            indexes.append(pattern_index(tree, patterns))
        return indexes[0]

    stages = dict(zip(spec.stage_names(), spec.stages, strict=True))
    return BuildContext(
        spec.name,
        stages,
        tree,
        spec.default,
        custom,
        get_patterns,
        get_meaning,
        lambda: made[0] if made else None,
        lambda: indexes[0] if indexes else None,
    )


def meaning_of(
    tree: AgentTree,
    encoder: Encoder | None = None,
    keep: Path | None = None,
    *,
    default: str | None = None,
    shared: "IndexCache | None" = None,
) -> Meaning:
    """Creates a `Meaning` for the tree. `encoder` None = the bundled one; the other arguments are those of `Meaning`."""
    if encoder is None:
        from turnwise.matching.encoder.onnx_encoder import OnnxEncoder

        encoder = OnnxEncoder()
    return Meaning(tree, encoder, keep, default=default, shared=shared)


def build(inputs: BuildContext, name: str, spec: StageSpec) -> Stage:
    """Builds one stage.

    Raises:
        PolicyError: The selector or an agent is unknown, or an option is invalid.
        PatternError: A pattern is invalid.
    """
    if spec.selector in _BUILT_IN:
        model, make = _BUILT_IN[spec.selector]
        opts = options_of(inputs.policy, name, model, spec.options)
        options: JsonValue = opts.model_dump(mode="json")
        place = f"stage {name!r}"
        for field in ("lead", "agent", "general"):
            refuse_unknown_agents(inputs, f"{place}, {field!r}", (getattr(opts, field, None),))
        refuse_unknown_agents(inputs, f"{place}, 'order'", getattr(opts, "order", ()))
        return Stage(name, spec.selector, make(inputs, name, opts), options)
    factory = inputs.custom.get(spec.selector)
    if factory is None:
        known = ", ".join((*_BUILT_IN, *inputs.custom))
        raise PolicyError(
            f"Policy {inputs.policy!r}, stage {name!r}: there is no selector {spec.selector!r}.",
            fix=f"Known selectors: {known}. A custom one is written `module:attribute`.",
        )
    return Stage(name, spec.selector, _build_custom(inputs, name, spec, factory), dict(spec.options))


def refuse_unknown_agents(inputs: BuildContext, place: str, names: tuple[str | None, ...]) -> None:
    """Raises PolicyError when one of the names, None aside, is not an agent of the tree."""
    for name in names:
        if name is not None and name not in inputs.tree:
            every = [card.name for card in inputs.tree]
            more = f" and {len(every) - _NAMES_SHOWN} more" if len(every) > _NAMES_SHOWN else ""
            raise PolicyError(
                f"Policy {inputs.policy!r}, {place}: there is no agent {name!r}.",
                fix=f"Known agents: {', '.join(every[:_NAMES_SHOWN])}{more}.",
            )


def _build_custom(inputs: BuildContext, name: str, spec: StageSpec, factory: Factory) -> Selector:
    """Builds a custom selector with its factory. Raises PolicyError if that fails or returns no selector."""
    where = f"Policy {inputs.policy!r}, stage {name!r}: the selector {spec.selector!r}"
    try:
        selector = factory(inputs.tree, **spec.options)
    except ConfigError:
        raise
    except Exception as problem:
        fix = f"It is called with the tree and these options: {', '.join(spec.options) or 'none'}."
        raise PolicyError(f"{where} could not be made: it raised {type(problem).__name__}: {problem}", fix=fix) from problem
    if not inspect.iscoroutinefunction(getattr(selector, "select", None)) or not hasattr(selector, "name"):
        raise PolicyError(f"{where} is not a selector.", fix="It needs a `name` and `async def select(self, request)`.")
    return selector
