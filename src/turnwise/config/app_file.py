"""The keys of `turnwise.yaml`. The loader and the JSON schema for editors use these models."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from turnwise.config.agent_section import AgentItem
from turnwise.config.document import kind_of
from turnwise.config.part_section import ModelItem, ModelOptions, StageItem, ToolItem
from turnwise.config.validation import OneOf, Section, mistake, required_keys
from turnwise.facts.errors import PolicyError
from turnwise.facts.gateway import GatewayConfig
from turnwise.facts.hints import did_you_mean
from turnwise.facts.limits import Limits, ProcessConfig, RunConfig
from turnwise.guardrails.personal_data import Kind
from turnwise.guardrails.replacing import PLACES, Action
from turnwise.ports.experiments import Metric, Unit
from turnwise.ports.guardrail import Place
from turnwise.ports.retention import Retention
from turnwise.selection.named import NAMED, named_policy

DEFAULT_STORE = "sqlite:///turnwise.db"
NOTES = "x-"
"""Prefix of top-level keys that are ignored: a place for YAML anchors."""


# Objects of the user's code


class Reference(Section):
    """An object of the user's code: its import path and the options to call it with."""

    thing: ClassVar[str] = "An import path"
    path: str = Field(alias="import")
    """The import path, as module:attribute."""
    options: dict[str, JsonValue] = {}
    """Keyword arguments for a class or a function."""

    @classmethod
    def to(cls, path: str, options: Mapping[str, JsonValue] = MappingProxyType({})) -> "Reference":
        """A reference to the object of that import path."""
        return cls.model_validate({"import": path, "options": dict(options)})


def _path_alone(value: Any) -> Any:
    if isinstance(value, str):
        return {"import": value}
    if isinstance(value, dict) and "import" in value:
        return value
    raise mistake("Here an import path was expected.", "Write module:attribute, or `import: module:attribute`.")


ReferenceItem = Annotated[Reference, BeforeValidator(_path_alone, json_schema_input_type=str | Reference)]


def _no_place(value: Any) -> PydanticCustomError:
    """Returns the mistake of a value that is no import path."""
    if isinstance(value, dict):
        return mistake("Here an import path was expected.", "Write module:attribute, or `import: module:attribute`.")
    if value is None:
        return mistake("{name} is empty.", "Write a value, or remove the line.")
    fix = "Put it in quotes." if isinstance(value, bool | int | float) else "Write text."
    return mistake(f"{{name}} should be text, but is {kind_of(value)}.", fix)


PlaceItem = Annotated[Any, OneOf({str: str, "import": Reference}, _no_place)]
"""A URL, a folder, or an object of the user's code."""


class EndpointEncoderSection(Section):
    """An encoder at an OpenAI-compatible URL."""

    thing: ClassVar[str] = "An encoder"
    form: ClassVar[str] = "Write a folder, `{url: …, model: …, key: ${NAME}}`, or `{import: module:attribute}`."
    url: str = Field(min_length=1)
    """The base URL of the service, without `/embeddings`."""
    model: str = Field(min_length=1)
    """The model's name at the service."""
    key: str = ""
    """Empty = no API key is sent."""
    languages: tuple[Annotated[str, Field(pattern="^[a-z]{2}$")], ...] | None = Field(default=None, max_length=100)
    """The languages that the model knows, as ISO 639-1 codes. None = it counts as knowing all."""


EncoderItem = Annotated[Any, OneOf({str: str, "import": Reference, dict: EndpointEncoderSection}, _no_place)]


# The policy


def _known_policy(name: str) -> str:
    try:
        named_policy(name)
    except PolicyError as error:
        raise mistake(error.problem, error.fix, error=PolicyError) from None
    return name


PolicyName = Annotated[str, AfterValidator(_known_policy), Field(json_schema_extra={"enum": [*NAMED]})]


_NO_OPTIONS = ("{name} should be keys and values, but is {given}.", "Write the options below the stage's name.")
StageChange = Annotated[Any, OneOf({"model": ModelOptions, dict: dict[str, JsonValue]}, _NO_OPTIONS)]
"""Options of a stage that is named elsewhere. Only the selector `model` has an option `model`."""


_NO_CONDITION = ("{name} should be text or a list, but is {given}.", "Write one value, or `[one, other]`.")


class SegmentSection(Section):
    """Changes of a policy for some callers."""

    thing: ClassVar[str] = "A segment"
    when: dict[str, Annotated[Any, OneOf({str: str, list: tuple[str, ...]}, _NO_CONDITION)]]
    """Conditions on `channel` and `user_kind`, each with one value or a list. All have to hold."""
    options: dict[str, StageChange] = {}
    """Options of stages for these messages, by stage."""
    default: str | None = None
    """The default agent for these messages; None keeps the policy's."""
    name: str | None = None
    """The segment's name in decisions; None = built from its conditions."""


class ChangedPolicy(Section):
    """A named policy with changes."""

    error: ClassVar[type[PolicyError]] = PolicyError
    use: PolicyName
    """The named policy that is changed."""
    name: str | None = None
    """The policy's name in decisions; None keeps that of the named policy."""
    options: dict[str, StageChange] = {}
    """Options that replace those of the named policy, by stage."""
    default: str | None = None
    """The agent that answers when no stage chooses one; None keeps that of the named policy."""
    segments: tuple[SegmentSection, ...] = ()
    """Changes for some messages. The first segment that fits counts."""
    several: str | None = None
    """The agent for messages with requests for several agents; None means that the chosen agent does its part."""
    shadow: str | None = None
    """The name of a policy that decides, too, for comparison only."""
    shadow_may_ask: bool = False
    """Whether the shadow's stages may ask somebody outside of the process, such as a model."""


class WrittenPolicy(Section):
    """A policy that the file defines."""

    error: ClassVar[type[PolicyError]] = PolicyError
    name: str = "custom"
    """The policy's name in decisions."""
    stages: tuple[StageItem, ...] = ()
    """Selectors in the order in which they are asked; the first choice counts."""
    default: str | None = None
    """The agent that answers when no stage chooses one; None means the root."""
    segments: tuple[SegmentSection, ...] = ()
    """Changes for some messages. The first segment that fits counts."""
    several: str | None = None
    """The agent for messages with requests for several agents; None means that the chosen agent does its part."""
    shadow: str | None = None
    """The name of a policy that decides, too, for comparison only."""
    shadow_may_ask: bool = False
    """Whether the shadow's stages may ask somebody outside of the process, such as a model."""


def _no_policy(value: Any) -> PydanticCustomError:
    problem = f"{{name}} should be a policy's name or keys and values, but is {kind_of(value)}."
    return mistake(problem, "Write `policy: default`.", error=PolicyError)


PolicyItem = Annotated[Any, OneOf({str: PolicyName, "use": ChangedPolicy, dict: WrittenPolicy}, _no_policy)]


# Experiments


class ArmSection(Section):
    """One of the policies that an experiment compares."""

    thing: ClassVar[str] = "An arm"
    weight: float = Field(default=1.0, gt=0, le=1_000_000, allow_inf_nan=False)
    """The share of the units, relative to the other arms' weights."""
    policy: str | None = Field(default=None, min_length=1, max_length=128)
    """The name of the arm's policy. None = the app's own policy."""


class StopSection(Section):
    """When an experiment stops by itself."""

    thing: ClassVar[str] = "A stop rule"
    worse_by: float = Field(default=0.02, ge=0, le=1)
    """It stops when an arm is surely worse than the control by more than this."""
    least_units: int = Field(default=100, ge=10, le=1_000_000)
    """How many ripe units an arm needs before there are intervals."""


class ExperimentSection(Section):
    """The experiment of the app: which policies are compared, on which units, and by which metric."""

    thing: ClassVar[str] = "An experiment"
    name: str = Field(min_length=1, max_length=64)
    """Identifies the experiment. A changed one needs a new name."""
    unit: Unit = "session"
    """The unit that gets an arm, and counts once: each session, or each user."""
    arms: dict[str, ArmSection]
    """The policies by arm. The first arm is the control."""
    metric: Metric = "uncorrected"
    """The primary metric, which alone decides."""
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    """The probability that an experiment without a difference ever ends with a winner."""
    ripe_seconds: float = Field(default=86_400.0, gt=0, le=31_536_000, allow_inf_nan=False)
    """How long after its last message a unit counts."""
    paired: bool = True
    """Whether, with two arms, the other arm's policy decides each message, too, as its shadow."""
    stop: StopSection = StopSection()
    """When it stops by itself."""


# Guardrails


class GuardrailSection(Section):
    """A built-in guardrail. The guardrail's class defines the defaults: only options that the file sets are passed on."""

    name: str = ""
    """The guardrail's name in the log; empty means that of its kind."""


class LengthSection(GuardrailSection):
    use: Literal["length"]
    """Limits the length of messages and answers."""
    message: int | None = Field(default=None, ge=1)
    """The most characters of a message; None has no limit."""
    answer: int | None = Field(default=None, ge=1)
    """The most characters of an answer; None has no limit."""
    action: Action = "block"
    """`block` refuses longer text, `rewrite` cuts it off."""


class SecretsSection(GuardrailSection):
    use: Literal["secrets"]
    """Finds keys, tokens and passwords."""
    action: Action = "rewrite"
    """`rewrite` puts a label in their place, `block` refuses the text."""
    places: tuple[Place, ...] = PLACES
    """The checked contents: messages, tool calls, answers."""


class PersonalDataSection(GuardrailSection):
    use: Literal["personal_data"]
    """Finds personal data."""
    action: Action = "rewrite"
    """`rewrite` puts a label in its place, `block` refuses the text."""
    places: tuple[Place, ...] = PLACES
    """The checked contents: messages, tool calls, answers."""
    kinds: tuple[Kind, ...] = ()
    """Which personal data is looked for; by default every kind."""


class InjectionMarksSection(GuardrailSection):
    use: Literal["injection_marks"]
    """Finds marks of prompt injection."""
    phrases: bool = True
    """True blocks known phrases; false only removes control tokens and hidden characters."""
    places: tuple[Place, ...] = PLACES
    """The checked contents: messages, and answers for results of tools; by default both."""


class BannedTopicsSection(GuardrailSection):
    use: Literal["banned_topics"]
    """Finds sentences about banned topics, by meaning."""
    banned: tuple[str, ...] = Field(min_length=1)
    """Example sentences of the topics; ten or more for each."""
    allowed: tuple[str, ...] = ()
    """Example sentences that are no such topic, though close to one."""
    threshold: float = Field(default=0.0, ge=-1.0, le=1.0, allow_inf_nan=False)
    """The lowest cosine similarity with a banned example, -1 to 1; 0.6 if it is not set."""
    places: tuple[Place, ...] = PLACES
    """The checked contents: messages, tool calls, answers; by default messages and answers."""
    reason: str = ""
    """The refusal that the user reads; empty means the standard one."""


GUARDRAILS: Mapping[str, type[GuardrailSection]] = {
    "length": LengthSection,
    "personal_data": PersonalDataSection,
    "secrets": SecretsSection,
    "injection_marks": InjectionMarksSection,
    "banned_topics": BannedTopicsSection,
}
"""The options of the built-in guardrails, by name."""
_BY_NAME_ALONE = [name for name, section in GUARDRAILS.items() if required_keys(section) == ["use"]]


def _known_guardrail(name: str) -> str:
    """Returns the name of a guardrail that needs no options. Raises the mistake otherwise."""
    if ":" in name:
        return name
    if name not in GUARDRAILS:
        fix = f"{did_you_mean(name, GUARDRAILS)} Or write an import path, module:attribute."
        raise mistake(f"There is no guardrail {name!r}.", fix)
    if name not in _BY_NAME_ALONE:
        needed = required_keys(GUARDRAILS[name])[-1]
        raise mistake(f"The guardrail {name!r} needs {needed!r}.", f"Write `{{use: {name}, {needed}: …}}`.")
    return name


def _no_guardrail(value: Any) -> PydanticCustomError:
    """Returns the mistake of a value that is no guardrail."""
    if not isinstance(value, dict):
        return mistake("Here an import path was expected.", "Write module:attribute, or `import: module:attribute`.")
    if "use" not in value:
        return mistake("Here a guardrail was expected, with the key 'use'.", did_you_mean("", GUARDRAILS))
    fix = f"{did_you_mean(str(value['use']), GUARDRAILS)} Or write an import path, module:attribute."
    return mistake(f"There is no guardrail {value['use']!r}.", fix, "use")


_BUILT_IN = {("use", name): section for name, section in GUARDRAILS.items()}
_GuardrailName = Annotated[
    str, AfterValidator(_known_guardrail), Field(json_schema_extra={"pattern": f"^({'|'.join(_BY_NAME_ALONE)})$|:"})
]
GuardrailItem = Annotated[Any, OneOf({str: _GuardrailName, "import": Reference, **_BUILT_IN}, _no_guardrail)]


# Definitions


class DefinitionsSection(Section):
    """The parts that definitions in the database may use. They can name nothing else."""

    makers: dict[str, ReferenceItem] = {}
    """Factories of agents in code, by name."""
    tools: dict[str, ToolItem] = {}
    """Tools, by name. The built-in tools need not be listed."""
    models: dict[str, ModelItem] = {}
    """Language models, by name."""
    environment: tuple[str, ...] = ()
    """Environment variables that definitions may refer to as `${NAME}`."""
    private_remotes: bool = False
    """Whether remote agents may have addresses that are not public, for development."""


# The file


def _named(name: str) -> str:
    if not name.strip():
        raise mistake("{name} is empty.", "Write a name: sessions are stored under it.")
    return name


def _misplaced(_: Any) -> Any:
    raise mistake("Limits belong at the top of the file, not below 'run'.", "Move them to `limits:`.")


class RunSection(Section, RunConfig):
    """How messages are run."""

    limits: SkipJsonSchema[Annotated[Limits, BeforeValidator(_misplaced)]] = Limits()


class MemorySection(Section):
    """The memory that the app keeps of its users by itself."""

    thing: ClassVar[str] = "A memory"
    entities: Literal["off", "working", "short", "long"] = "working"
    """How long the things that messages name are kept."""
    working_seconds: float = Field(default=300.0, gt=0, le=1e9, allow_inf_nan=False)
    """How long working memory lasts."""
    short_seconds: float = Field(default=3_600.0, gt=0, le=1e9, allow_inf_nan=False)
    """How long short-term memory lasts."""
    model: str | None = None
    """The model that finds facts in conversations, as `provider:model`. None finds none."""
    ingest: Literal["never", "on_end", "on_request"] = "on_end"
    """When the model reads conversations: after each answer, or only on request."""
    routing: bool = True
    """Whether the agent that noted a thing, or served it last, counts when a later message names the thing."""


class AppFile(Section):
    """The whole file. Paths are as written: relative to the file's folder."""

    model_config = ConfigDict(
        title="turnwise.yaml", json_schema_extra={"required": ["app"], "patternProperties": {f"^{NOTES}": {}}}
    )
    thing: ClassVar[str] = "This file"
    app: Annotated[str, AfterValidator(_named), Field(json_schema_extra={"pattern": r"\S"})] = ""
    """The app's name. Sessions are stored under it."""
    root: Annotated[Any, OneOf({str: str}, _no_place)] = None
    """The root agent: a name, or module:attribute."""
    agents: tuple[AgentItem, ...] = ()
    """The agents, in a list or nested."""
    policy: PolicyItem = "default"
    """How agents are chosen."""
    policies: dict[str, PolicyItem] = {}
    """Other policies by name, for the arms of an experiment and for shadows."""
    experiments: ExperimentSection | None = None
    """The experiment that compares policies. None = there is none."""
    encoder: EncoderItem = None
    """The encoder, which turns texts into vectors. None = the built-in one."""
    selectors: dict[str, ReferenceItem] = {}
    """Custom selectors, by name."""
    store: PlaceItem = DEFAULT_STORE
    """The session store: a URL, or an import path."""
    artifacts: PlaceItem = None
    """`in_memory`, a folder, a URL, or an import path. None = no artifacts."""
    memory: MemorySection | None = None
    """The memory of users. None = only what agents remember themselves."""
    limits: Limits = Limits()
    """Limits on users and agents."""
    run: RunSection = RunSection()
    """How messages are run."""
    process: ProcessConfig = ProcessConfig()
    """How one process shares the work with others."""
    retention: Retention = Retention()
    """How long stored data is kept."""
    guardrails: tuple[GuardrailItem, ...] = ()
    """Guardrails, in order."""
    hooks: tuple[ReferenceItem, ...] = ()
    """Custom hooks, in order."""
    definitions: DefinitionsSection = DefinitionsSection()
    """The parts that definitions in the database may use."""
    gateway: GatewayConfig = GatewayConfig()
    """How the app is served over HTTP."""
