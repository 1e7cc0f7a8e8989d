"""Large blobs in pages of events: a page holds their sizes in place of their data, in every protocol."""

from typing import TypeGuard

from turnwise.facts.content import BlobPart, Part
from turnwise.facts.events import Event

LARGE_BLOB_BYTES = 64 * 1024
"""Pages hold larger blobs without their data."""


def without_large_blobs(event: Event) -> Event:
    """Returns the event with the sizes of large blobs in place of their data."""
    if event.content is None or not any(_is_large(part) for part in event.content.parts):
        return event
    return event.with_content(event.content.with_parts(_without_data(part) for part in event.content.parts))


def left_out_bytes(part: BlobPart) -> int | None:
    """Returns the size of a blob without its data; None for any other blob."""
    size = (part.model_extra or {}).get("size")
    return size if isinstance(size, int) and not part.data else None


def _is_large(part: Part) -> TypeGuard[BlobPart]:
    return isinstance(part, BlobPart) and len(part.data) > LARGE_BLOB_BYTES


def _without_data(part: Part) -> Part:
    if not _is_large(part):
        return part
    return BlobPart.model_construct(**(dict(part) | {"data": b"", "size": len(part.data)}))
