"""Texts that the runtime says to users, in one language or by language."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

OTHER = "other"
"""The key of the text for all languages without one."""
MAX_LANGUAGES, MAX_CHARACTERS = 50, 500

_Text = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
_Language = Annotated[str, Field(pattern=rf"^([a-z]{{2}}|{OTHER})$")]
ByLanguage = Annotated[
    dict[_Language, _Text], Field(min_length=1, max_length=MAX_LANGUAGES, json_schema_extra={"required": [OTHER]})
]
Texts = _Text | ByLanguage
"""A text, or texts by ISO 639-1 code, with the key `other` for all other languages."""


def text_in(texts: str | Mapping[str, str], language: str | None) -> str:
    """Returns the text in that language; None = the language is not known. Without `other`, the first text is for the rest."""
    if isinstance(texts, str):
        return texts
    return texts.get(language or OTHER) or texts.get(OTHER) or next(iter(texts.values()))
