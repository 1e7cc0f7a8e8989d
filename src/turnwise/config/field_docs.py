"""Reads the documentation of model fields: the string below each field in the class's source.

Schemas for editors and for the HTTP API use it as descriptions. The source is parsed when a schema is made, never at import.
"""

import ast
import inspect
import textwrap
from functools import cache

from pydantic import BaseModel


@cache
def field_docs(model: type[BaseModel]) -> dict[str, str]:
    """Returns the documentation by field name; inherited fields included, fields without any left out."""
    found: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if each is not BaseModel and issubclass(each, BaseModel):
            found |= _own_docs(each)
    return found


def _own_docs(model: type[BaseModel]) -> dict[str, str]:
    """Returns the documentation of the fields that the class itself declares; empty without its source."""
    try:
        source = textwrap.dedent(inspect.getsource(model))
    except (OSError, TypeError):  # a class that was made at run time, or a bundle without sources
        return {}
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        is_field = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
        if is_field and is_text:
            found[field.target.id] = inspect.cleandoc(text.value.value)  # type: ignore[attr-defined]
    return found
