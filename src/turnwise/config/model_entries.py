"""Reads models of a configuration file: a name, a URL, an import path, or a list of those."""

from typing import Any

from turnwise.config.document import kind_of
from turnwise.config.importing import resolve
from turnwise.config.places import Document, Where
from turnwise.facts.errors import ConfigError, TurnwiseError
from turnwise.facts.spelling import did_you_mean
from turnwise.models.by_name import ModelEndpoint, model_of
from turnwise.ports.model import Model

_KEYS = ("model", "url", "key")
_FORMS = 'Write provider:name, or `{model: …, url: …, key: "${NAME}"}`, or a list of those.'


def read_model(document: Document, where: Where, value: Any, *, own: bool = True) -> Model | None:
    """Reads a model. Returns None after it reported the problems. Opens no connection.

    Of a list, later models are fallbacks of the first.

    Args:
        own: whether the model may be an object of the user's code.
    """
    if not isinstance(value, list):
        return _read_one(document, where, value, own=own)
    models = [_read_one(document, (*where, index), each, own=own) for index, each in enumerate(value)]
    found = [model for model in models if model is not None]
    return _build_model(document, where, found) if len(found) == len(models) else None


def _read_one(document: Document, where: Where, value: Any, *, own: bool) -> Model | None:
    if isinstance(value, str):
        return _build_model(document, where, value)
    if not isinstance(value, dict):
        document.report(where, f"Here a model was expected, but this is {kind_of(value)}.", _FORMS)
        return None
    if own and "import" in value:
        return _read_own(document, where, value)
    before = len(document.problems)
    for key, written in value.items():
        if key not in _KEYS:
            document.report(
                (*where, key), f"A model has no key {key!r}.", did_you_mean(key, (*_KEYS, *(["import"] if own else [])))
            )
        elif not isinstance(written, str) and not (key == "key" and written is None):  # an empty variable is no key
            document.report((*where, key), f"{key!r} should be text, but is {kind_of(written)}.", "Put it in quotes.")
    for key in ("model", "url"):
        if key not in value:
            document.report(where, f"The model has no {key!r}.", _FORMS)
    if len(document.problems) > before:
        return None
    try:
        endpoint = ModelEndpoint(value["model"], value["url"], value.get("key") or "")
    except ConfigError as error:
        document.report_error(where, error)
        return None
    return _build_model(document, where, endpoint)


def _read_own(document: Document, where: Where, value: dict[str, Any]) -> Model | None:
    for key in value.keys() - {"import"}:
        document.report((*where, key), f"Beside 'import' there is no key {key!r}.", "Remove it.")
    try:
        return _build_model(document, where, resolve(str(value["import"]), document.folder))
    except TurnwiseError as error:
        document.report_error((*where, "import"), error)
        return None


def _build_model(document: Document, where: Where, spec: Any) -> Model | None:
    try:
        return model_of(spec)
    except ConfigError as error:
        document.report_error(where, error)
        return None
