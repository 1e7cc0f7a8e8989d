"""Builds the language models that a configuration file names."""

from typing import Any

from turnwise.config.document import Document, Where
from turnwise.config.importing import resolve
from turnwise.config.tool_section import Endpoint, ImportedModel
from turnwise.facts.errors import TurnwiseError
from turnwise.models.by_name import ModelEndpoint, model_of
from turnwise.ports.model import Model


def build_model(document: Document, where: Where, item: Any) -> Model | None:
    """Builds the model of a `ModelItem`. Returns None if it has a problem. Opens no connection.

    In a list, later models are fallbacks of the first.
    """
    if isinstance(item, tuple):
        item = [build_model(document, (*where, index), each) for index, each in enumerate(item)]
    if document.has_problem(where):
        return None
    try:
        if isinstance(item, ImportedModel):
            return model_of(resolve(item.path, document.folder))
        return model_of(ModelEndpoint(item.model, item.url, item.key or "") if isinstance(item, Endpoint) else item)
    except TurnwiseError as error:
        document.report_error((*where, "import") if isinstance(item, ImportedModel) else where, error)
        return None
