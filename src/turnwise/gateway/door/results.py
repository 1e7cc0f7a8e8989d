"""Results of calls: by whom they are believed."""

from turnwise.access.rights import tells_late_results
from turnwise.facts.callers import Caller
from turnwise.facts.content import Content
from turnwise.facts.errors import Forbidden
from turnwise.facts.sessions import SessionKey
from turnwise.runner import Runner
from turnwise.selection.owner import tool_result_owner
from turnwise.transcript.waits import Kind, kind_of


async def check_results(
    runner: Runner, caller: Caller, key: SessionKey, content: str | Content, message_id: str | None, *, create: bool
) -> None:
    """Whether the caller is believed what the message says that calls gave. create: whether the session may be missing.

    A user gives what tools gave that came with a message, and leave for calls that need it. What a tool of an agent set
    going, others report (`tells_late_results`): Forbidden. And as ids of calls are no secrets, a user's results for calls
    that nobody made yet are not taken into the line, where they would wait for them: UnknownToolCall. SessionMissing.
    """
    if isinstance(content, str) or not content.tool_results or tells_late_results(caller):
        return
    if message_id is not None and await _is_begun(runner, key, message_id):
        return
    session = await runner.store.open(key, blank=create) or await runner.sessions.get(key)
    owner = tool_result_owner(content, session.head)
    assert owner is not None
    kinds = await _kinds(runner, key, owner[0])
    if any(kinds.get(result.call_id, "late") == "late" for result in content.tool_results):
        raise Forbidden(
            "This credential may not say what an agent's own tool gave.",
            fix="Let whoever did the work say so, with a key that acts for users.",
        )


async def _is_begun(runner: Runner, key: SessionKey, message_id: str) -> bool:
    """Whether that message was begun with: then it is read on, whatever comes under its id now."""
    receipt = await runner.store.inbox.receipt(key, message_id)
    return receipt is not None and receipt.state != "queued"


async def _kinds(runner: Runner, key: SessionKey, invocation_id: str) -> dict[str, Kind]:
    """Who gives the results of the calls of that invocation, whether they are waited for yet or not."""
    events = await runner.sessions.events(key, invocation_id=invocation_id)
    return {call.call_id: kind_of(call, event) for event in events if event.content for call in event.content.tool_calls}
