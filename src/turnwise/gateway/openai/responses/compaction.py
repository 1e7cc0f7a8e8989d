"""Compaction: represents a conversation as one item, with which a later request begins.

The session's log holds the conversation, so nothing is summarized. The item holds the id of the last recorded
response, and the items of the request that are not recorded.
"""

import base64
import binascii
import json
import zlib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from turnwise.facts.errors import RequestTooLarge
from turnwise.facts.ids import SystemIssuer
from turnwise.gateway.openai.responses.request_schema import Thread
from turnwise.gateway.openai.responses.result import seconds
from turnwise.gateway.openai.responses.schema import Tokens
from turnwise.gateway.shared.exchanges import MOST_MESSAGES

COMPACTION = "compaction"
MOST_BYTES = 4 * 1024 * 1024
"""The maximum size of the packed items as JSON."""
_VERSION = "1."


class Compact(Thread):
    """The body of `POST /v1/responses/compact`."""

    model: str
    image: dict[str, JsonValue] | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, JsonValue] | None = None
    prompt_cache_retention: str | None = None
    service_tier: str | None = None


class CompactionItem(BaseModel):
    """A compacted conversation."""

    id: str
    type: Literal["compaction"] = "compaction"
    encrypted_content: str


class Compaction(BaseModel):
    """A compacted conversation. Send these items in front of new input."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    created_at: int
    output: list[CompactionItem]
    usage: Tokens = Tokens()


class CompactedInput(BaseModel):
    """The content of a compaction item: the last recorded response, and the items after it."""

    model_config = ConfigDict(extra="forbid")
    after: str | None = None
    items: Annotated[list[dict[str, JsonValue]], Field(max_length=MOST_MESSAGES)] = []


def compact_items(after: str | None, items: list[dict[str, JsonValue]]) -> Compaction:
    """Returns the compaction of the items after a response.

    Raises:
        RequestTooLarge: The items exceed `MOST_BYTES`.
    """
    issuer = SystemIssuer()
    written = json.dumps({"after": after, "items": items}, separators=(",", ":")).encode()
    if len(written) > MOST_BYTES:
        raise RequestTooLarge(
            f"The items have {len(written):,} bytes, {MOST_BYTES:,} can be compacted.", fix="Continue from a response instead."
        )
    packed = base64.urlsafe_b64encode(zlib.compress(written)).decode()
    item = CompactionItem(id=issuer.new_id("cmp"), encrypted_content=_VERSION + packed)
    return Compaction(id=issuer.new_id("compaction"), created_at=seconds(issuer.now()), output=[item])


def compacted_input(item: Any) -> CompactedInput | None:
    """Returns the content of a compaction item; None if it was not made here."""
    given = item.get("encrypted_content")
    if not isinstance(given, str) or not given.startswith(_VERSION):
        return None
    unpacking = zlib.decompressobj()
    try:
        written = unpacking.decompress(base64.urlsafe_b64decode(given.removeprefix(_VERSION)), MOST_BYTES)
        return CompactedInput.model_validate_json(written)
    except (binascii.Error, zlib.error, ValueError):
        return None


def expand_compactions(items: list[dict[str, JsonValue]]) -> CompactedInput:
    """Returns the input with each compaction item replaced by its content."""
    after: str | None = None
    flat: list[dict[str, JsonValue]] = []
    for item in items:
        held = compacted_input(item) if item.get("type") == COMPACTION else None
        if held is None:
            flat.append(item)
        else:
            after, flat = held.after or after, [*flat, *held.items]
    return CompactedInput(after=after, items=flat)
