"""What every recorded value is: frozen, strict when made, tolerant when read."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field


def optional(default: Any) -> Any:
    """A field that most facts do without: it is written only when it is not the default, so that it costs them no space."""
    return Field(default=default, exclude_if=lambda value: value == default)


class Fact(BaseModel):
    """An immutable value of the log.

    Made in code, an unknown field or a wrong type is an error. Read from a store (`model_validate_json`), fields that a
    newer version wrote are kept and written back, so an older process neither fails on them nor loses them.
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

    # Tells pydantic that reading nested facts need not go through the strict constructor above.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with these fields changed, shared values and all; the changes are trusted, not checked.

        Facts are copied at every step of a turn: this does what pydantic's own copy does for a frozen model without private
        attributes, at a fifth of its cost.
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
