"""The message that a user event holds, as it was accepted."""

from collections.abc import Iterable

from turnwise.facts.content import Content
from turnwise.facts.events import USER, Event
from turnwise.facts.messages import Message, OfferedTool
from turnwise.facts.sessions import SessionKey
from turnwise.ports.stores import SessionStore
from turnwise.runner.record.event_ids import origin_of


async def message_behind(store: SessionStore, key: SessionKey, event: Event) -> Message:
    """The message with the context and configuration it came with, its content as it was answered.

    A fork's copied messages came to the session that their events' ids name.
    """
    origin = origin_of(event.id)
    receipt = await store.inbox.receipt(key._replace(id=origin.session), origin.message)
    content = event.content or Content()
    if receipt is None:
        return Message(id=origin.message, content=content)
    return receipt.message.model_copy(update={"content": content})


async def offered_to(store: SessionStore, key: SessionKey, events: Iterable[Event]) -> tuple[OfferedTool, ...]:
    """What the caller offered with the message that began the invocation of these events: it counts in all of it, whatever
    comes with the messages that it goes on with.
    """
    first = next((event for event in events if event.author == USER and event.content is not None), None)
    return () if first is None else (await message_behind(store, key, first)).context.tools
