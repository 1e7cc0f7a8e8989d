"""The owner of a tool result: whoever made the call (behaviours A6 to A8)."""

from turnwise.facts.content import Content
from turnwise.facts.errors import UnknownToolCall
from turnwise.facts.selections import Verdict
from turnwise.facts.sessions import Head
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.verdicts import abstained, chosen, shown


def tool_result_owner(message: Content, head: Head) -> tuple[str, str] | None:
    """The invocation that waits for the message's tool results, and the agent that made the first of these calls.

    None when the message holds no tool result. UnknownToolCall when a result belongs to no open call, or the results belong
    to calls of different invocations.
    """
    results = message.tool_results
    if not results:
        return None
    for result in results:
        if result.call_id not in head.calls:
            raise UnknownToolCall(
                f"Nobody waits for a result of the tool call {shown(result.call_id)!r}.",
                fix="Send each result once, with the id of the call, while its invocation waits.",
            )
    calls = [head.calls[result.call_id] for result in results]
    if len({call.invocation_id for call in calls}) > 1:
        raise UnknownToolCall(
            "The message holds results for tool calls of different invocations.", fix="Send one message for each invocation."
        )
    return calls[0].invocation_id, calls[0].agent


class ToolResult:
    """Chooses the author of the tool call whose result the message holds."""

    def __init__(self, *, name: str = "tool_result") -> None:
        self.name = name

    async def select(self, request: SelectionRequest) -> Verdict:
        try:
            owner = tool_result_owner(request.message, request.head)
        except UnknownToolCall as problem:
            return abstained(self.name, problem.problem)
        if owner is None:
            return abstained(self.name, "The message holds no tool result.")
        agent = owner[1]
        if agent not in request.eligible:
            why = "may not be reached" if agent in request.tree else "is no longer in the tree"
            return abstained(self.name, f"{shown(agent)} made the tool call, but {why}.")
        reason = f"The message holds the result of a tool call that {agent} made."
        return chosen(self.name, agent, method="tool_result", confidence=1.0, reason=reason)
