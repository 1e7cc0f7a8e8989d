"""The caller's memory, as a tool that searches it and as a resource."""

import json
from collections.abc import Iterable

from mcp_types import CallToolResult, TextContent, TextResourceContents

from turnwise.facts.memory import MemoryEntry
from turnwise.gateway.mcp.arguments import Recall
from turnwise.gateway.mcp.request import McpRequest
from turnwise.gateway.mcp.schema import Memory, MemoryItem
from turnwise.ports.memory import ALL_MEMORIES

MEMORY = "turnwise://memory"
"""The URI of the newest entries."""
ENTRIES = 100
"""The most entries of the resource."""


async def recall(request: McpRequest, arguments: Recall) -> CallToolResult:
    """Searches the memory. Raises Forbidden, StoreError."""
    found = await request.services.memories.search(arguments.query, ALL_MEMORIES, limit=arguments.limit)
    memory = _memory(each.entry for each in found)
    # Quoted, so that no text passes for another line.
    lines = [f"- {json.dumps(item.text, ensure_ascii=False)} (said by {item.said_by})" for item in memory.memories]
    return CallToolResult(
        content=[TextContent(text="\n".join(lines) or "Nothing that is remembered fits.")],
        structured_content=memory.model_dump(mode="json", exclude_none=True),
    )


async def read_memory(request: McpRequest) -> TextResourceContents:
    """Returns the newest entries. Raises Forbidden, StoreError."""
    page = await request.services.memories.page(ALL_MEMORIES, superseded=False, after=None, limit=ENTRIES)
    text = _memory(page.items).model_dump_json(exclude_none=True)
    return TextResourceContents(uri=MEMORY, mime_type="application/json", text=text)


def _memory(entries: Iterable[MemoryEntry]) -> Memory:
    """Returns the entries in the form of the memory tool and resource."""
    return Memory(
        memories=[
            MemoryItem(
                id=entry.id,
                kind=entry.kind,
                text=entry.text,
                said_by=entry.said_by,
                agent=entry.agent or None,
                created_at=entry.created_at.isoformat(),
            )
            for entry in entries
        ]
    )
