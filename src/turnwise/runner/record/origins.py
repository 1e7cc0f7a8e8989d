"""The message that a user event holds, as it was accepted."""

from turnwise.facts.content import Content
from turnwise.facts.events import Event
from turnwise.facts.messages import Message
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
