"""Who would answer, and who did, with the reasons."""

from collections.abc import Sequence

from mcp_types import CallToolResult, TextContent

from turnwise.facts.messages import MessageContext
from turnwise.facts.selections import Selection, Verdict
from turnwise.gateway.mcp.arguments import Explain, Select
from turnwise.gateway.mcp.shapes import Considered, Decided, Excluded, Opinion
from turnwise.gateway.mcp.visit import Visit


async def select(visit: Visit, given: Select) -> CallToolResult:
    """Who would answer that message. Nothing is stored and nobody runs."""
    selection = await visit.front.messages.select(
        visit.caller, given.message, session=given.session, user=visit.user, context=MessageContext()
    )
    return _result(decided(visit.view.selection(selection), given.session))


async def explain(visit: Visit, given: Explain) -> CallToolResult:
    """The recorded decision of a message, or the latest. SessionMissing, InvocationMissing."""
    found = await visit.front.decisions.of_message(visit.caller, given.session, given.message_id, visit.user)
    return _result(decided(visit.view.selection(found.selection), given.session))


def decided(selection: Selection, session: str | None) -> Decided:
    """The decision as a value of the wire; the selection is as its reader may see it."""
    return Decided(
        session=session,
        agent=selection.agent,
        outcome=selection.outcome,
        method=selection.method,
        confidence=selection.confidence,
        reason=selection.reason,
        opinions=[_opinion(verdict) for verdict in selection.verdicts],
        excluded=[Excluded(agent=each.agent, rule=each.rule, detail=each.detail) for each in selection.excluded],
    )


def in_words(decision: Decided) -> str:
    """The decision for a reader: who and why, then what each selector said."""
    verb = "answers" if decision.outcome == "chosen" else "asks what is meant"
    first = f"{decision.agent} {verb} ({decision.method}, {decision.confidence:.2f}): {decision.reason}"
    return "\n".join([first, *_lines(decision.opinions)])


def _lines(opinions: Sequence[Opinion]) -> list[str]:
    return [
        f"- {each.selector}: {each.outcome}{f' {each.agent}' if each.agent else ''}. {each.reason}".rstrip()
        for each in opinions
    ]


def _opinion(verdict: Verdict) -> Opinion:
    return Opinion(
        selector=verdict.selector,
        outcome=verdict.outcome,
        agent=verdict.agent,
        confidence=verdict.confidence,
        reason=verdict.reason,
        candidates=[Considered(agent=each.agent, score=each.score, evidence=each.evidence) for each in verdict.candidates],
    )


def _result(decision: Decided) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(text=in_words(decision))],
        structured_content=decision.model_dump(mode="json", exclude_none=True),
    )
