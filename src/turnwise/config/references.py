"""Things of the users' own in a configuration file, by import path."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from turnwise.config.document import kind_of
from turnwise.config.places import Document, Where


class Reference(NamedTuple):
    """Something of the users' own: an import path, the options it is called with, and where it is written."""

    path: str
    options: Mapping[str, Any]
    where: Where


def read_references(document: Document, key: str) -> tuple[Reference, ...]:
    """The references in the list below that key; what is wrong is reported and left out."""
    value = document.data.get(key, [])
    if not isinstance(value, list):
        document.report((key,), f"{key!r} should be a list of import paths, but is {kind_of(value)}.", "Write `- module:name`.")
        return ()
    found = (read_reference(document, (key, index), item) for index, item in enumerate(value))
    return tuple(reference for reference in found if reference is not None)


def read_reference(document: Document, where: Where, value: Any) -> Reference | None:
    """`module:attribute`, or `{import: module:attribute, options: {…}}`; None after what is wrong was reported."""
    if isinstance(value, str):
        return Reference(value, {}, where)
    if isinstance(value, dict) and isinstance(value.get("import"), str):
        for key in value.keys() - {"import", "options"}:
            fix = "What it is called with stands below `options:`."
            document.report((*where, key), f"Beside 'import' there is no key {key!r}.", fix)
        options = value.get("options", {})
        if isinstance(options, dict):
            return Reference(value["import"], options, where)
        document.report(
            (*where, "options"), f"'options' should be keys and values, but is {kind_of(options)}.", "Write them below."
        )
        return None
    document.report(where, "Here an import path was expected.", "Write module:attribute, or `import: module:attribute`.")
    return None
