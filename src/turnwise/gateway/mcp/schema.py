"""What the tools and resources give, for programs. What is not known is left out."""

from typing import Literal

from pydantic import BaseModel, Field, JsonValue

from turnwise.facts.events import Event

State = Literal["completed", "waiting", "failed"]


class Awaited(BaseModel):
    """What an answer waits for."""

    call_id: str = Field(description="Which wait it is: for `answer_to`.")
    kind: Literal["reply", "confirmation", "tool_result"] = Field(
        description="reply: any words of the user's; confirmation: the user's word whether the tool may be called; "
        "tool_result: what a tool gives that is still at work, from whoever does that work."
    )
    agent: str = Field(description="Who waits.")
    text: str = Field(default="", description="The question.")
    tool: str = Field(default="", description="The tool that may be called, or is at work.")
    arguments: dict[str, JsonValue] = Field(default={}, description="What the tool is called with.")


class Kept(BaseModel):
    """A file of a conversation."""

    uri: str = Field(description="Where it can be read, as a resource.")
    name: str = Field(description="How the file is called.")
    version: int | None = Field(default=None, description="Which version of it, from 1.")
    mime_type: str | None = Field(default=None, description="What kind of file it is.")


class Failed(BaseModel):
    """Why there is no answer."""

    code: str = Field(description="For programs.")
    message: str = Field(description="In words.")


class Answered(BaseModel):
    """What became of a message."""

    session: str = Field(description="The conversation; pass it to go on with it.")
    message_id: str = Field(description="The name of the message: for `explain`, or to ask for this answer again.")
    invocation_id: str | None = Field(default=None, description="The same for all messages until the answer is whole.")
    state: State = Field(description="waiting: `waits` tells for what; failed: `error` tells why.")
    text: str = Field(description="What the agents said to the user.")
    agent: str | None = Field(default=None, description="The agent that was selected.")
    reason: str | None = Field(default=None, description="Why it was selected.")
    waits: list[Awaited] = Field(default=[], description="What has to be answered before it goes on.")
    artifacts: list[Kept] = Field(default=[], description="Files that came of it.")
    error: Failed | None = None


class Considered(BaseModel):
    """An agent that came into question."""

    agent: str = Field(description="Its name.")
    score: float = Field(description="How well it fits, 0 to 1.")
    evidence: str = Field(default="", description="What speaks for it.")


class Opinion(BaseModel):
    """What one selector said: a rule, a comparison of words, or a model."""

    selector: str = Field(description="Its name.")
    outcome: Literal["chosen", "abstained", "clarify"] = Field(
        description="abstained: the next one is asked; clarify: the user is to be asked what is meant."
    )
    agent: str | None = Field(default=None, description="Whom it chose.")
    confidence: float = Field(description="How sure it was, 0 to 1.")
    reason: str = Field(default="", description="Why.")
    candidates: list[Considered] = Field(default=[], description="Whom it thought of, the best first.")


class Excluded(BaseModel):
    """An agent that did not come into question."""

    agent: str = Field(description="Its name.")
    rule: str = Field(description="By which rule.")
    detail: str = Field(default="", description="What exactly.")


class Decided(BaseModel):
    """Which agent is to answer, and why."""

    session: str | None = Field(default=None, description="The conversation.")
    agent: str = Field(description="Who answers, or asks.")
    outcome: Literal["chosen", "clarify"] = Field(description="clarify: the agent asks the user first what is meant.")
    method: str = Field(description="By what it was decided, for programs.")
    confidence: float = Field(description="How sure that was, 0 to 1.")
    reason: str = Field(description="Why, in words.")
    opinions: list[Opinion] = Field(default=[], description="What each selector said, in the order they were asked.")
    excluded: list[Excluded] = Field(default=[], description="Which agents did not come into question.")


class Conversation(BaseModel):
    """The newest events of a session, oldest first. `earlier` leads to those before."""

    session: str
    events: list[Event]
    earlier: str | None = None
    artifacts: list[Kept] = []
