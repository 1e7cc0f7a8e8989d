"""The owner of a tool result, or of a reply: whoever made the call, or asked (behaviours A6 to A8, A42)."""

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


def reply_owner(answers: str, head: Head) -> tuple[str, str]:
    """The invocation that waits for a reply under that id, and the agent that asked. UnknownToolCall when none does."""
    for invocation_id, agent, wait in head.waiting():
        if (wait.id, wait.kind) == (answers, "reply"):
            return invocation_id, agent
    raise UnknownToolCall(
        f"Nobody waits for a reply to {shown(answers)!r}.", fix="Answer each question once, while its invocation waits."
    )


class ToolResult:
    """Chooses the author of the tool call whose result the message holds, or of the question that it says it answers."""

    def __init__(self, *, name: str = "tool_result") -> None:
        self.name = name

    async def select(self, request: SelectionRequest) -> Verdict:
        try:
            owner = tool_result_owner(request.message, request.head)
            replies = owner is None and request.context.answers is not None
            owner = reply_owner(request.context.answers or "", request.head) if replies else owner
        except UnknownToolCall as problem:
            return abstained(self.name, problem.problem)
        if owner is None:
            return abstained(self.name, "The message holds no tool result.")
        agent = owner[1]
        if agent not in request.eligible:
            why = "may not be reached" if agent in request.tree else "is no longer in the tree"
            did = "asked" if replies else "made the tool call"
            return abstained(self.name, f"{shown(agent)} {did}, but {why}.")
        if replies:
            reason = f"The message is the reply to a question that {agent} asked."
            return chosen(self.name, agent, method="reply", confidence=1.0, reason=reason)
        reason = f"The message holds the result of a tool call that {agent} made."
        return chosen(self.name, agent, method="tool_result", confidence=1.0, reason=reason)
