"""A conversation as messages of the protocol: for a client that comes back to it. Pure."""

from collections.abc import Iterable, Sequence

from turnwise.facts.events import USER, Event
from turnwise.gateway.ag_ui.ledger import Ledger
from turnwise.gateway.ag_ui.parts import as_text
from turnwise.gateway.ag_ui.wire import Wire
from turnwise.gateway.shown import View
from turnwise.gateway.speech.words import words_of
from turnwise.transcript.waits import kind_of


def messages_in(events: Iterable[Event], view: View) -> list[Wire]:
    """What a log tells its reader."""
    ledger, calls, messages = Ledger(), set[str](), list[Wire]()
    for event in events:
        shown = view.event(event)
        results = shown.content.tool_results if shown.content else ()
        if event.author == USER and shown.text:
            messages.append({"id": event.id, "role": "user", "content": shown.text})
        if text := words_of(shown):
            ledger.say(shown, text, None)
        for part in shown.content.tool_calls if shown.content else ():
            if kind_of(part, shown) != "confirm":
                ledger.call(shown, part, None)
                calls.add(part.call_id)
        for result in results:
            if result.call_id in calls:
                ledger.result(shown, result.call_id, as_text(result.result), None)
        messages += ledger.take()
    return messages


def restated(held: Sequence[Wire], log: Sequence[Wire]) -> list[Wire]:
    """The messages that a client has, with those of the log in place of its own of the same ids, and behind them what the log
    has after the last that they share; all of the log for a client that has none of it.
    """
    ids = {message.get("id") for message in held}
    shared = max((place for place, message in enumerate(log, 1) if message["id"] in ids), default=0)
    known = {message["id"]: message for message in log}
    own = [known.get(str(message.get("id")), message) for message in held]
    if shared or not held:
        return [*own, *log[shared:]]
    return own
