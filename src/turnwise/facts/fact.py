"""What every recorded value is: frozen, strict when made, tolerant when read."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class Fact(BaseModel):
    """An immutable value of the log.

    Made in code, an unknown field or a wrong type is an error. Read from a store (`model_validate_json`), fields that a
    newer version wrote are kept and written back, so an older process neither fails on them nor loses them.
    """

    model_config = ConfigDict(frozen=True, extra="allow", strict=True, ser_json_bytes="base64", val_json_bytes="base64")

    def __init__(self, /, **data: Any) -> None:
        self.__pydantic_validator__.validate_python(data, self_instance=self, extra="forbid")

    # Tells pydantic that reading nested facts need not go through the strict constructor above.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]
