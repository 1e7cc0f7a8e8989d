"""Content: what is said, its parts, the events that carry it, and the messages that callers send."""

from turnwise.facts.content import (
    ArtifactPart,
    BlobPart,
    Content,
    DataPart,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    UnknownPart,
    text_content,
)
from turnwise.facts.events import USER, Actions, Await, Branch, End, ErrorInfo, Event, Guarded, Rewind, StepRecord, Summary
from turnwise.facts.messages import Message, MessageContext, OfferedTool
from turnwise.facts.waits import Wait, open_waits

__all__ = [
    "USER",
    "Actions",
    "ArtifactPart",
    "Await",
    "BlobPart",
    "Branch",
    "Content",
    "DataPart",
    "End",
    "ErrorInfo",
    "Event",
    "Guarded",
    "Message",
    "MessageContext",
    "OfferedTool",
    "Part",
    "Rewind",
    "StepRecord",
    "Summary",
    "TextPart",
    "ThinkingPart",
    "ToolCallPart",
    "ToolResultPart",
    "UnknownPart",
    "Wait",
    "open_waits",
    "text_content",
]
