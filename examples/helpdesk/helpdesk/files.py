"""The files that came with a message."""

import re

from turnwise import Content
from turnwise.content import ArtifactPart

_SAVED = re.compile(r"Uploaded file: (?P<name>[^\n]+?)\. It has been saved to the artifacts")


def attached(content: Content) -> list[str]:
    """The names of the artifacts that the content refers to, in order. Inline data that nobody saved has none."""
    references = [part.name for part in content.parts if isinstance(part, ArtifactPart)]
    return [*references, *(found["name"] for found in _SAVED.finditer(content.text))]
