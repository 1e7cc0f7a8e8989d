"""The JSON schema of `turnwise.yaml`, for editors.

It describes the structure only. `turnwise check` also checks names, import paths and thresholds.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from turnwise.config.agent_builder import LoopOptions, TeamOptions
from turnwise.config.entries import OWN_KEYS
from turnwise.config.flow_entries import FlowOptions, TaskEntry
from turnwise.config.guardrail_entries import BUILT_IN
from turnwise.config.llm_entries import LlmOptions
from turnwise.config.policies import ChangedPolicy
from turnwise.config.settings import KEYS, NOTES
from turnwise.config.tool_entries import AgentToolEntry, McpServerEntry
from turnwise.facts.cards import COMPOSITES, AgentCard
from turnwise.facts.gateway import GatewayConfig, Switch
from turnwise.facts.limits import Limits, ProcessConfig, RunConfig
from turnwise.selection.policy import PolicySpec, StageSpec

Schema = dict[str, Any]

DIALECT = "http://json-schema.org/draft-07/schema#"
"""Editors support this draft fully, newer drafts only in part."""
TEXT: Schema = {"type": "string"}
LIST_OF_TEXT: Schema = {"type": "array", "items": TEXT}
FROM_ENVIRONMENT: Schema = {"type": "string", "pattern": r"\$\{"}
_TYPED = ("integer", "number", "boolean")


def file_schema() -> Schema:
    """Returns the schema of the whole file, as plain data."""
    found = _Definitions()
    top: dict[str, Schema] = {
        "app": TEXT | {"description": "The app's name. Sessions are stored under it."},
        "root": TEXT | {"description": "The root agent: a name, or module:attribute."},
        "agents": {"type": "array", "items": found.agent(), "description": "The agents, in a list or nested."},
        "policy": found.policy(),
        "encoder": _any_of(TEXT, _object({"url": TEXT, "model": TEXT, "key": TEXT}, ["url", "model"]), _REFERENCE),
        "selectors": {"type": "object", "additionalProperties": _any_of(TEXT, _REFERENCE)},
        "store": _any_of(TEXT, _REFERENCE) | {"description": "The session store: a URL, or an import path."},
        "artifacts": _any_of(TEXT, _REFERENCE),
        "limits": found.of(Limits),
        "run": found.of(RunConfig, without=["limits"]),
        "process": found.of(ProcessConfig),
        "guardrails": {"type": "array", "items": found.guardrail()},
        "hooks": {"type": "array", "items": _any_of(TEXT, _REFERENCE)},
        "gateway": found.of(GatewayConfig),
    }
    assert tuple(top) == KEYS
    schema = _object(top, ["app"]) | {"patternProperties": {f"^{NOTES}": {}}}
    return {"$schema": DIALECT, "title": "turnwise.yaml", **_allow_variables(schema | {"definitions": found.definitions})}


def _object(properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    schema: Schema = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


def _any_of(*each: Schema) -> Schema:
    return {"anyOf": list(each)}


def _one_or_more(schema: Schema) -> Schema:
    return _any_of(schema, {"type": "array", "items": schema})


_REFERENCE = _object({"import": TEXT, "options": {"type": "object"}}, ["import"])
_MODEL = _one_or_more(
    _any_of(TEXT, _object({"model": TEXT, "url": TEXT, "key": _any_of(TEXT, {"type": "null"})}, ["model", "url"]), _REFERENCE)
)
_RESULT = _any_of(TEXT, _object({"labels": {"type": "array"}}, ["labels"]), _object({"schema": {"type": "object"}}, ["schema"]))
_UNTIL: Schema = {"$ref": "#/definitions/until"}


class _Definitions:
    """Builds the schemas of parts of the file and collects the definitions they refer to."""

    def __init__(self) -> None:
        count = {"type": "integer", "minimum": 1}
        tasks = _one_or_more(TEXT)
        conditions = {"type": "array", "items": _UNTIL}
        keyed = {"any_complete": tasks, "any_failed": tasks, "max_turns": count, "max_model_calls": count}
        until = _any_of(TEXT, conditions, _object({**keyed, "any": conditions, "all": conditions}))
        self.definitions: dict[str, Schema] = {"until": until}
        self.definitions["tool"] = _any_of(TEXT, self.of(McpServerEntry), self.of(AgentToolEntry))
        self.definitions["agent"] = _any_of(TEXT, *(self._agent_schema(kind) for kind in OWN_KEYS))

    def of(self, model: type[BaseModel], *, without: Sequence[str] = ()) -> Schema:
        """The schema of that model, without additional properties."""
        schema = model.model_json_schema(ref_template="#/definitions/{model}")
        kinds: list[type[BaseModel]] = [Switch, *Switch.__subclasses__()]
        switches = {kind.__name__ for kind in kinds}
        for name, nested in schema.pop("$defs", {}).items():
            strict = nested | ({"additionalProperties": False} if "properties" in nested else {})
            # A protocol may also be a boolean, which switches it on or off.
            self.definitions[name] = _any_of({"type": "boolean"}, strict) if name in switches else strict
        for name in without:
            del schema["properties"][name]
        return schema | {"additionalProperties": False}

    def agent(self) -> Schema:
        return {"$ref": "#/definitions/agent"}

    def policy(self) -> Schema:
        """A policy: a name, a name with changes, or written out."""
        written = self.of(PolicySpec)
        written["properties"]["stages"] = {"type": "array", "items": _any_of(TEXT, self.of(StageSpec))}
        return _any_of(TEXT, self.of(ChangedPolicy), written)

    def guardrail(self) -> Schema:
        """A guardrail: a name, an import path, or a name with options."""
        each = [self.of(options) for options, _ in BUILT_IN.values()]
        for name, schema in zip(BUILT_IN, each, strict=True):
            schema["properties"]["use"] = {"const": name}
            schema["required"] = ["use", *schema.get("required", ())]
        return _any_of(TEXT, _REFERENCE, *each)

    def _agent_schema(self, kind: str) -> Schema:
        """An agent of that kind, defined in the file."""
        schema = self.of(AgentCard)
        card: dict[str, Schema] = schema["properties"]
        card["patterns"] = {"type": "array", "items": _any_of(TEXT, {"$ref": "#/definitions/Pattern"})}
        children = {"type": "array", "items": self.agent()}
        # An imported agent has the keys of a function, whatever kind its card names.
        kinds = {"enum": ["function", "remote", "llm"]} if kind == "function" else {"const": kind}
        needed = {"function": ["run"], "llm": ["name", "kind", "model"], "flow": ["name", "kind", "tasks"]}
        required = needed.get(kind, ["name", "kind", "children"] if kind in COMPOSITES else ["name", "kind"])
        own = self._kind_properties(kind)
        assert set(own) == set(OWN_KEYS[kind])
        return _object({**card, "kind": kinds, "children": children, **own}, required)

    def _kind_properties(self, kind: str) -> dict[str, Schema]:
        """The properties that only agents of that kind have."""
        tools = {"type": "array", "items": {"$ref": "#/definitions/tool"}}
        if kind == "function":
            return {"run": TEXT}
        if kind == "llm":
            instructions = _any_of(TEXT, _object({"import": TEXT}, ["import"]))
            models = {"model": _MODEL, "summary_model": _MODEL}
            return {**models, "instructions": instructions, "tools": tools, "output": TEXT, **self._fields(LlmOptions)}
        if kind == "loop":
            return self._fields(LoopOptions)
        if kind == "team":
            return {**self._fields(TeamOptions), "selector": _any_of(TEXT, self.of(StageSpec))}
        if kind == "flow":
            task = self.of(TaskEntry)
            task["properties"] |= {"result": _RESULT, "tools": tools}
            strategy = _any_of(TEXT, {"type": "object", "properties": {"use": TEXT}, "required": ["use"]})
            flow = {"tasks": {"type": "array", "items": task}, "strategy": strategy, "until": _UNTIL}
            return {**flow, **self._fields(FlowOptions)}
        return {}

    def _fields(self, model: type[BaseModel]) -> dict[str, Schema]:
        fields: dict[str, Schema] = self.of(model)["properties"]
        return fields


def _allow_variables(schema: Any) -> Any:
    """Lets numbers, booleans, enums and patterned strings also be a variable, such as ${NAME}."""
    if isinstance(schema, list):
        return [_allow_variables(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: {name: _allow_variables(each) for name, each in value.items()}
        if key in ("properties", "definitions", "patternProperties")
        else value
        if key in ("default", "enum", "const")
        else _allow_variables(value)
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str))
    }
    is_typed = found.get("type") in _TYPED or "enum" in found or (found.get("type") == "string" and "pattern" in found)
    if not is_typed or found == FROM_ENVIRONMENT:
        return found
    beside = {key: found.pop(key) for key in ("description", "default") if key in found}
    return {"anyOf": [found, FROM_ENVIRONMENT], **beside}
