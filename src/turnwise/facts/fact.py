"""The base class of all recorded values: frozen, strict when created, tolerant when read."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field


def optional(default: Any) -> Any:
    """Returns a field that is only written when it differs from the default, to save space in the log."""
    return Field(default=default, exclude_if=lambda value: value == default)


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

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Returns a copy with the given fields replaced. Does not validate the changes, and shares the other values.

        Facts are copied at every step of a turn. This does what pydantic does for a frozen model without private
        attributes, in a fifth of the time.
        """
        if deep:
            return super().model_copy(update=update, deep=True)
        copy = self.__class__.__new__(self.__class__)
        changed = {} if update is None else update
        object.__setattr__(copy, "__dict__", {**self.__dict__, **changed})
        object.__setattr__(copy, "__pydantic_fields_set__", self.__pydantic_fields_set__.union(changed))
        object.__setattr__(copy, "__pydantic_extra__", self.__pydantic_extra__)
        object.__setattr__(copy, "__pydantic_private__", None)
        return copy
