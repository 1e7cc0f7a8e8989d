"""What the tools and resources give, for programs. What is not known is left out."""

from typing import Literal

from pydantic import BaseModel, Field, JsonValue

from turnwise.facts.events import Event

State = Literal["completed", "waiting", "failed"]


class Awaited(BaseModel):
    """What an answer waits for. `call_id` goes into `answer_to`."""

    call_id: str
    kind: Literal["reply", "confirmation", "tool_result"] = Field(
        description="reply: any words of the user's; confirmation: whether the tool may be called; tool_result: what it gave."
    )
    agent: str
    text: str = Field(default="", description="The question.")
    tool: str = ""
    arguments: dict[str, JsonValue] = {}


class Kept(BaseModel):
    """A file of a session."""

    uri: str
    name: str
    version: int | None = None
    mime_type: str | None = None


class Failed(BaseModel):
    """Why there is no answer."""

    code: str
    message: str


class Answered(BaseModel):
    """What became of a message."""

    session: str = Field(description="The conversation; pass it to go on with it.")
    message_id: str
    invocation_id: str | None = None
    state: State
    text: str = Field(description="What the agents said to the user.")
    agent: str | None = Field(default=None, description="Who was selected.")
    reason: str | None = Field(default=None, description="Why.")
    waits: list[Awaited] = Field(default=[], description="What has to be answered before it goes on.")
    artifacts: list[Kept] = Field(default=[], description="Files that came of it.")
    error: Failed | None = None


class Considered(BaseModel):
    """An agent that came into question. `score` is 0 to 1."""

    agent: str
    score: float
    evidence: str = ""


class Opinion(BaseModel):
    """What one selector said, on the way to the decision."""

    selector: str
    outcome: Literal["chosen", "abstained", "clarify"]
    agent: str | None = None
    confidence: float
    reason: str = ""
    candidates: list[Considered] = []


class Excluded(BaseModel):
    """An agent that did not come into question, and by which rule."""

    agent: str
    rule: str
    detail: str = ""


class Decided(BaseModel):
    """Who is to answer, and why. With outcome `clarify` the user is asked, by `agent`."""

    session: str | None = None
    agent: str
    outcome: Literal["chosen", "clarify"]
    method: str
    confidence: float
    reason: str
    opinions: list[Opinion] = Field(default=[], description="What each selector said, in the order they were asked.")
    excluded: list[Excluded] = []


class Conversation(BaseModel):
    """The newest events of a session, oldest first. `earlier` leads to those before."""

    session: str
    events: list[Event]
    earlier: str | None = None
    artifacts: list[Kept] = []
