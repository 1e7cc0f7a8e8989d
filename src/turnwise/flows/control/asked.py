"""Whether those who work in a flow find in the log what it was asked."""

from turnwise.facts.events import USER, Event
from turnwise.ports.context import AgentContext


async def is_in_the_log(context: AgentContext) -> bool:
    """Whether the message of the flow whose turn this is stands in the log as the user's own, where everybody reads it; what
    the flow was told by another flow, a caller, or who handed over, is shown to the flow alone.
    """
    part = context.assignment
    if (part is not None and part.giver is not None) or context.event().is_private:
        return False
    async for page in context.history.backwards():
        if any(_says_it(event, context) for event in page):
            return True
    return False


def _says_it(event: Event, context: AgentContext) -> bool:
    if event.author != USER or event.invocation_id != context.invocation_id:
        return False
    said = event.actions.brief or event.content
    return said is not None and said.parts == context.message.parts
