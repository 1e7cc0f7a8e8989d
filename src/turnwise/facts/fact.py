"""The base class of all recorded values: frozen, strict when created, tolerant when read."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

AnyModel = TypeVar("AnyModel", bound=BaseModel)

values_of: Callable[[BaseModel], dict[str, Any]] = BaseModel.__dict__["__dict__"].__get__
"""Returns the values of a model's fields by name. They must not be changed.

For loops over thousands of facts: to read an attribute of a pydantic model takes three times as long.
"""

# Direct setters of the places where pydantic keeps a model's data. A frozen model refuses `setattr`.
_set_values = BaseModel.__dict__["__dict__"].__set__
_set_given = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_set_extra = BaseModel.__dict__["__pydantic_extra__"].__set__
_set_private = BaseModel.__dict__["__pydantic_private__"].__set__


def _apply(setter: Callable[[Any, Any], None], models: Iterable[BaseModel], values: Iterable[Any]) -> None:
    """Calls the setter with each model and its value, without a step of Python between the calls."""
    deque(map(setter, models, values), maxlen=0)


def optional(default: Any) -> Any:
    """Returns a field that is only written when it differs from the default, to save space in the log."""
    return Field(default=default, exclude_if=lambda value: value == default)


def replaced(model: AnyModel, /, **changes: Any) -> AnyModel:
    """Returns a copy of any pydantic model with the given fields replaced. Checks them as `Fact.replace` does."""
    validators = _validators_of(type(model))
    return model.model_copy(update={name: validators[name](value) for name, value in changes.items()})


class _FieldValidators(dict[str, Callable[[Any], Any]]):
    """The validators of a model's single fields, by name. Each is made when the field is first replaced."""

    def __init__(self, model: type[BaseModel]) -> None:
        super().__init__()
        self._model = model

    def __missing__(self, name: str) -> Callable[[Any], Any]:
        model, field = self._model, self._model.model_fields.get(name)
        if field is None:
            raise TypeError(f"{model.__name__} has no field {name!r}. It has: {', '.join(model.model_fields)}.")
        kind: Any = field.annotation
        own_config = isinstance(kind, type) and issubclass(kind, BaseModel)
        config = None if own_config else ConfigDict(**{**model.model_config, "title": f"{model.__name__}.{name}"})
        adapter = TypeAdapter[Any](Annotated[kind, *field.metadata] if field.metadata else kind, config=config)
        return self.setdefault(name, adapter.validator.validate_python)


@cache
def _validators_of(model: type[BaseModel]) -> _FieldValidators:
    return _FieldValidators(model)


class Fact(BaseModel):
    """An immutable value of the log.

    In code, an unknown field or a wrong type is an error. Read from a store (`model_validate_json`), fields of a newer
    version are kept and written back, so an older process neither fails on them nor loses them.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        strict=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        ser_json_inf_nan="constants",
    )

    def __init__(self, /, **data: Any) -> None:
        self.__pydantic_validator__.validate_python(data, self_instance=self, extra="forbid")

    # Lets pydantic read nested facts without the strict constructor above.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def of_valid(cls, values: dict[str, Any], given: set[str]) -> Self:
        """Returns the fact of values that were checked before, in a tenth of the time that validation takes.

        Args:
            values: The values of all fields. The fact keeps the dictionary.
            given: The fields that were given; the others have their defaults. Facts may share the set.
        """
        fact = object.__new__(cls)
        _set_values(fact, values)
        _set_given(fact, given)
        _set_extra(fact, {})
        _set_private(fact, None)
        return fact

    @classmethod
    def many_of_valid(cls, values: Sequence[dict[str, Any]], given: set[str]) -> list[Self]:
        """As `of_valid`, for many facts with the same given fields: half as expensive for each."""
        facts = list(map(object.__new__, repeat(cls, len(values))))
        _apply(_set_values, facts, values)
        _apply(_set_given, facts, repeat(given))
        _apply(_set_extra, facts, [{} for _ in values])
        _apply(_set_private, facts, repeat(None))
        return facts

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with the given fields replaced. The other values are shared.

        Raises:
            TypeError: The class has no field of that name.
            ValidationError: A new value has a wrong type.
        """
        validators = _validators_of(type(self))
        for name, value in changes.items():
            changes[name] = validators[name](value)
        return self.model_copy(update=changes)

    def replace_valid(self, **changes: Any) -> Self:
        """As `replace`, for values that come from other facts. Shares them instead of validating and copying them.

        For values that grow with the session, such as its state: each event would copy them.
        """
        fields = type(self).__pydantic_fields__
        for name in changes:
            if name not in fields:
                raise TypeError(f"{type(self).__name__} has no field {name!r}.")
        return self.model_copy(update=changes)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Returns a copy with the given fields replaced. Does not check the changes: use `replace`.

        Facts are copied at every step of a turn. This does what pydantic does for a frozen model without private
        attributes, in a fifth of the time.
        """
        if deep:
            return super().model_copy(update=update, deep=True)
        copy = object.__new__(type(self))
        changed = {} if update is None else update
        _set_values(copy, {**self.__dict__, **changed})
        _set_given(copy, self.__pydantic_fields_set__.union(changed))
        _set_extra(copy, self.__pydantic_extra__)
        _set_private(copy, None)
        return copy
