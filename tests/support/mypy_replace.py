"""A mypy plugin: types the keyword arguments of `Fact.replace`, `replaced` and `Event.with_actions` after the model's fields.

mypy does the same for `dataclasses.replace` and for `NamedTuple._replace`. pyproject.toml names this file.
"""

from collections.abc import Callable

from mypy.nodes import ARG_NAMED_OPT, ARG_POS, TypeInfo, Var
from mypy.plugin import FunctionSigContext, MethodSigContext, Plugin
from mypy.types import CallableType, FunctionLike, Instance, ProperType, Type, TypeVarType, get_proper_type

FACT = "turnwise.facts.fact.Fact"
EVENT = "turnwise.facts.events.Event"


def fields_of(model: TypeInfo) -> dict[str, Type]:
    """Returns the types of a model's fields by name."""
    bases = [base for base in reversed(model.mro) if not base.fullname.startswith(("builtins.", "pydantic."))]
    nodes = {name: symbol.node for base in bases for name, symbol in base.names.items()}
    found = {name: node for name, node in nodes.items() if isinstance(node, Var) and not node.is_classvar}
    return {name: node.type for name, node in found.items() if node.type is not None and name != "model_config"}


def model_of(kind: ProperType) -> TypeInfo | None:
    if isinstance(kind, TypeVarType):
        kind = get_proper_type(kind.upper_bound)
    return kind.type if isinstance(kind, Instance) and kind.type.has_base("pydantic.main.BaseModel") else None


def with_fields(signature: CallableType, model: TypeInfo | None, before: list[Type]) -> CallableType:
    """Returns the signature with the model's fields as optional keyword arguments after the positional ones."""
    if model is None:
        return signature
    fields = fields_of(model)
    return signature.copy_modified(
        arg_types=[*before, *fields.values()],
        arg_kinds=[ARG_POS] * len(before) + [ARG_NAMED_OPT] * len(fields),
        arg_names=[None] * len(before) + list(fields),
    )


def of_fact(context: MethodSigContext) -> FunctionLike:
    model = model_of(get_proper_type(context.type))
    return with_fields(context.default_signature, model if model and model.has_base(FACT) else None, [])


def of_actions(context: MethodSigContext) -> FunctionLike:
    event = model_of(get_proper_type(context.type))
    actions = fields_of(event).get("actions") if event and event.has_base(EVENT) else None
    return with_fields(context.default_signature, model_of(get_proper_type(actions)) if actions else None, [])


def of_function(context: FunctionSigContext) -> FunctionLike:
    if not context.args or not context.args[0]:
        return context.default_signature
    kind = get_proper_type(context.api.get_expression_type(context.args[0][0]))
    return with_fields(context.default_signature, model_of(kind), [context.default_signature.arg_types[0]])


class ReplacePlugin(Plugin):
    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], FunctionLike] | None:
        return {"replace": of_fact, "replace_valid": of_fact, "with_actions": of_actions}.get(fullname.rpartition(".")[2])

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        return of_function if fullname == "turnwise.facts.fact.replaced" else None


def plugin(version: str) -> type[Plugin]:
    return ReplacePlugin
