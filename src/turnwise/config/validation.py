"""Validates configuration files with pydantic models, with error messages for people who write YAML."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, Discriminator, GetCoreSchemaHandler, PlainValidator, Tag, ValidationError
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError, core_schema

from turnwise.config.document import Document, Where, kind_of
from turnwise.facts.errors import ConfigError
from turnwise.facts.fact import Fact
from turnwise.facts.hints import did_you_mean

Model = TypeVar("Model", bound=BaseModel)

_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "keys and values",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
}
AFTER_REMOVAL = "after removal"
"""The context of a validation after invalid values were removed."""
_UNKNOWN = object()


class Section(Fact):
    """A part of a configuration file with a name for error messages."""

    thing: ClassVar[str] = ""
    """The subject of messages about its keys, such as `A task`; empty = the key's path is named instead."""
    form: ClassVar[str] = "Add it."
    """How to write it: the fix for a missing key."""
    error: ClassVar[type[ConfigError] | None] = None
    """The class of errors in it and below it; None = that of the section around it."""

    @classmethod
    def fix_of_unknown(cls, key: str) -> str:
        """The fix for a key that it does not have."""
        return did_you_mean(key, keys_of(cls))


def keys_of(model: type[BaseModel]) -> list[str]:
    """The keys of a model as they are written in a file."""
    return [field.alias or name for name, field in model.model_fields.items()]


def required_keys(model: type[BaseModel]) -> list[str]:
    """The keys without a default."""
    return [field.alias or name for name, field in model.model_fields.items() if field.is_required()]


def mistake(problem: str, fix: str = "", key: str | None = None, error: type[ConfigError] | None = None) -> PydanticCustomError:
    """An error for a validator to raise.

    Args:
        problem: the thing and the cause, as one sentence. `{name}` in it becomes the path of the key.
        fix: what to do.
        key: the key with the mistake, if it is below the validated value.
        error: the class of the error; None = that of the section around the value.
    """
    return PydanticCustomError("mistake", "{problem}", {"problem": problem, "fix": fix, "key": key, "error": error})


class OneOf:
    """Metadata of a field with several forms of values: `Annotated[Any, OneOf(…)]`. A discriminated union.

    Args:
        forms: the types by form; the first form that fits a value decides. A form is the type of the value, a key that it has,
            a key with its value, or a function that says whether the value has this form.
        refusal: problem and fix for a value of another form, or a function of the value that returns the mistake. `{name}` in
            the problem becomes the path of the key, `{given}` the type of the value.
    """

    def __init__(self, forms: Mapping[Any, Any], refusal: tuple[str, str] | Callable[[Any], PydanticCustomError]) -> None:
        self._forms, self._refusal = [*forms], refusal
        members = [Annotated[each, Tag(_tag(number))] for number, each in enumerate(forms.values())]
        refused = Annotated[SkipJsonSchema[Annotated[Any, PlainValidator(self._refuse)]], Tag(_tag(len(forms)))]
        self.union = Annotated[Union[(*members, refused)], Discriminator(self._tag_of)]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        schema = handler.generate_schema(self.union)
        # A model knows how to serialize itself; pydantic would ask for the form of the model.
        return {**schema, "serialization": core_schema.plain_serializer_function_ser_schema(lambda value: value)}

    def _tag_of(self, value: Any) -> str:
        fitting = (number for number, form in enumerate(self._forms) if _fits(form, value))
        return _tag(next(fitting, len(self._forms)))

    def _refuse(self, value: Any) -> Any:
        if callable(self._refusal):
            raise self._refusal(value)
        problem, fix = self._refusal
        raise mistake(problem.replace("{given}", kind_of(value)), fix)


def _fits(form: Any, value: Any) -> bool:
    """Returns whether the value has this one of the field's forms."""
    if isinstance(form, type):
        return form in (object, type(value))
    if callable(form):
        return bool(form(value))
    if not isinstance(value, dict):
        return False
    return value.get(form[0]) == form[1] if isinstance(form, tuple) else form in value


def _tag(number: int) -> str:
    return f"<{number}>"


def validated(
    document: Document, model: type[Model], is_kept: Callable[[Where], bool] = lambda _: False
) -> tuple[Model, Document] | None:
    """Validates a document, after which nothing invalid is left of it.

    Reports every mistake to the document. Then removes the invalid values, so that the caller can check the others.
    Values are read as JSON: lists become tuples, but text and numbers are not converted to each other.

    Args:
        is_kept: whether None takes the place of an invalid value at that location.

    Returns:
        The valid part, and the document that it was read from. None if no valid part is left.
    """
    valid, removed, context = document, set[Where](), None
    while True:
        try:
            text = json.dumps(valid.data)
            return model.model_validate_json(text, strict=True, extra="forbid", context=context), valid
        except ValidationError as error:
            found = mistakes(error, model, valid.data)
        for each in () if context else found:  # later ones only follow from what was removed
            document.report(each.where, each.problem, each.fix, each.error)
        removed |= {valid.origin(_removable(each, is_kept)) for each in found}
        if () in removed:
            return None
        valid, context = document.without(removed, is_kept), AFTER_REMOVAL


class Mistake(NamedTuple):
    """One invalid value."""

    where: Where
    problem: str
    fix: str
    error: type[ConfigError]
    removed: Where
    """The innermost value that is invalid as a whole."""


def mistakes(error: ValidationError, model: type[BaseModel], data: Any = _UNKNOWN) -> list[Mistake]:
    """Translates a pydantic error about data of that model.

    Args:
        data: the validated data; locations then lead to its values. Without it they are pydantic's.
    """
    found: dict[Where, Mistake] = {}
    errors = error.errors(include_url=False)
    for each in errors:
        if each["type"] == "too_short" and any(other["loc"][:-1][: len(each["loc"])] == each["loc"] for other in errors):
            continue  # it counts valid items only
        translated = _translated(each, model, data)
        found.setdefault(translated.where, translated)  # the members of a plain union all complain
    return list(found.values())


def _translated(found: Any, model: type[BaseModel], data: Any) -> Mistake:
    """Returns one of pydantic's errors as a mistake: place, problem, fix and error type."""
    loc, context = tuple(found["loc"]), found.get("ctx", {})
    models = list(_models(model, loc))
    sections = [(start, each) for start, each in models if issubclass(each, Section) and start < len(loc)]
    start = sections[-1][0] if sections else 0
    path = [step for step in loc if not _is_tag(step)]
    above = len([step for step in loc[:start] if not _is_tag(step)])
    if sections and len(path) > 1:
        above = max(above, 1)  # the place tells the key at the top of the file
    name = _key_name(path[above:] or path[-1:])
    kind = next((each.error for _, each in reversed(sections) if each.error), ConfigError)
    where = loc if data is _UNKNOWN else _existing(loc, data)
    removed = where if found["type"] != "missing" or data is _UNKNOWN else _existing(loc[:-1], data)
    if found["type"] == "mistake":
        where = where if context["key"] is None else (*where, context["key"])
        return Mistake(where, context["problem"].replace("{name}", name), context["fix"], context["error"] or kind, removed)
    owner = next((each for at, each in reversed(models) if at == len(loc) - 1), None)
    whole = next((each for at, each in models if at == len(loc) and issubclass(each, Section)), None)
    problem, fix = _problem_and_fix(found, name, owner, whole)
    return Mistake(where, problem, fix, kind, removed)


def _problem_and_fix(found: Any, name: str, owner: type[BaseModel] | None, whole: type[Section] | None) -> tuple[str, str]:
    """Returns the words of an error for people who write YAML."""
    kind, given, context, key = found["type"], found["input"], found.get("ctx", {}), str((found["loc"] or ("",))[-1])
    thing, form = (owner.thing, owner.form) if owner and issubclass(owner, Section) else ("", "Add it.")
    if kind == "extra_forbidden":
        problem = f"{thing} has no key {key!r}." if thing else f"There is no key {name} here."
        fix = did_you_mean(key, keys_of(owner) if owner else ())
        return problem, owner.fix_of_unknown(key) if owner and issubclass(owner, Section) else fix
    if kind == "missing":
        return (f"{thing} needs {key!r}." if thing else f"The key {name} is missing."), form
    if kind == "json_invalid":
        return f"This is not JSON: {context['error']}.", ""
    if kind == "model_type" and whole is not None and whole.thing:
        return f"{whole.thing} is keys and values; this is {kind_of(given)}.", whole.form
    if kind in _EXPECTED:
        return f"{name} should be {_EXPECTED[kind]}, but is {kind_of(given)}.", _fix_of_type(kind, given, name)
    if kind == "literal_error":
        return f"{name} should be {context['expected']}.", did_you_mean(str(given), _choices(context["expected"]))
    if kind == "too_short":
        return f"{name} is empty.", "Write at least one item, or remove the key."
    message = found["msg"].removeprefix("Value error, ")
    return (f"{name}: {message}" if message[:5] != "Input" else message.replace("Input", name, 1)).rstrip(".") + ".", ""


def _fix_of_type(kind: str, given: Any, name: str) -> str:
    if kind == "string_type" and isinstance(given, bool | int | float):
        return "Put it in quotes."
    if _EXPECTED[kind] == "keys and values" and name.strip("'").isidentifier():
        return f"Write them below `{name.strip(chr(39))}:`."
    return "Write `- ` before each item." if _EXPECTED[kind] == "a list" else f"Write {_EXPECTED[kind]}."


def _removable(invalid: Mistake, is_kept: Callable[[Where], bool]) -> Where:
    """The value to remove for a mistake. An agent without its name would be another agent, so it goes as a whole."""
    above = invalid.removed[:-1]
    return above if invalid.removed[-1:] == ("name",) and is_kept(above) else invalid.removed


def _existing(loc: Where, data: Any) -> Where:
    """The steps of pydantic's location that lead to a value of the data, without its names for members of unions."""
    where: list[str | int] = []
    for step in loc:
        known: Any = dict(enumerate(data)) if isinstance(data, list) else data if isinstance(data, Mapping) else {}
        if step in known:
            data = known[step]
            where.append(step)
    return tuple(where)


def _is_tag(step: str | int) -> bool:
    return isinstance(step, str) and step[:1] == "<" and step[-1:] == ">"


def _key_name(loc: list[str | int]) -> str:
    text = ""
    for step in loc:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return repr(text) if text else "This"


def _choices(expected: str) -> list[str]:
    return [part for part in expected.replace(" or ", ", ").replace("'", "").split(", ") if part]


def _models(annotation: Any, loc: Where, start: int = 0) -> Iterator[tuple[int, type[BaseModel]]]:
    """The models on the way to a location, outermost first, each with the number of steps that lead to it."""
    step, origin, arguments = (loc[start] if start < len(loc) else None), get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield start, annotation
        for name, field in annotation.model_fields.items():
            written = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
            if annotation.__pydantic_root_model__:
                yield from _models(written, loc, start)
            elif step == (field.alias or name):
                yield from _models(written, loc, start + 1)
    elif origin is Annotated:
        tag = next((each.tag for each in arguments[1:] if isinstance(each, Tag)), None)
        union = next((each.union for each in arguments[1:] if isinstance(each, OneOf)), arguments[0])
        if tag is None or tag == step:
            yield from _models(union, loc, start + (tag is not None))
    elif origin in (tuple, list, dict):
        if step is not None:
            yield from _models(arguments[origin is dict], loc, start + 1)
    else:
        for argument in arguments:
            yield from _models(argument, loc, start)
