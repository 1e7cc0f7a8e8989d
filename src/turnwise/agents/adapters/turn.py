"""One turn of an agent of another library: its words while they come, then the whole, said once, and its questions."""

import inspect
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

from pydantic import JsonValue

from turnwise.agents.adapters.handing_over import Target
from turnwise.facts.content import Content, Part, TextPart, text_content
from turnwise.facts.errors import TurnwiseError
from turnwise.facts.events import End, Event
from turnwise.facts.usage import Usage
from turnwise.ports.context import AgentContext, Show


class Said(NamedTuple):
    """What a run came to: an answer, or a question to the user.

    usage: what its models took; None when that is not known. kept: what the run needs to go on once the question is answered.
    target: who answers next, if the agent handed over.
    """

    parts: Sequence[Part] = ()
    usage: Usage | None = None
    question: str | None = None
    kept: JsonValue = None
    target: Target | None = None


class Resumed(NamedTuple):
    """A run that goes on: what it kept, and the reply to its question."""

    kept: Any
    reply: Content


class Voice:
    """Shows the pieces of texts while they come. A library may say several things before its answer, each under a `key` of
    its own; only that which turns out to be the answer keeps the id under which it was shown.
    """

    def __init__(self, context: AgentContext, show: Show) -> None:
        self._context, self._show = context, show
        self._shown: dict[str, tuple[Event, str]] = {}

    async def piece(self, text: str, key: str = "") -> None:
        """Shows the next piece of that text."""
        if not text or not self._context.config.streaming:
            return
        event, before = self._shown.get(key) or (self._context.event(), "")
        self._shown[key] = event, before + text
        await self._show(event.model_copy(update={"content": text_content(text), "partial": True}))

    async def whole(self, parts: Sequence[Part], usage: Usage | None, *, ends: bool = True) -> Event:
        """The event of the answer. Its text is what was shown under its id, neither more nor less."""
        content = Content(parts=tuple(parts))
        event = await self._event_of(content.text)
        actions = event.actions.model_copy(update={"usage": usage, "end": End() if ends else None})
        return event.model_copy(update={"content": content, "actions": actions})

    async def _event_of(self, text: str) -> Event:
        begun = [(key, shown) for key, (_, shown) in self._shown.items() if shown and text.startswith(shown)]
        if not begun:
            return self._context.event()
        key, shown = max(begun, key=lambda each: len(each[1]))
        await self.piece(text[len(shown) :], key)
        return self._shown[key][0]


Work = Callable[[Voice, Resumed | None], Awaitable[Said]]
Explain = Callable[[Exception], TurnwiseError]


async def take_turn(context: AgentContext, work: Work, explain: Explain) -> None:
    """Runs `work` and says what it came to; when it asks, waits, and runs it again with the reply.

    Each run is on record with what it said, so that a turn that is taken up again does not run it again. What it raises
    becomes what `explain` makes of it; errors of ours stay as they are.
    """
    place = f"waits:{context.invocation_id}:{context.event().branch}"
    resumed: Resumed | None = None
    for number in count(1):
        await context.once(f"answer#{number}", _making(context, work, explain, place, resumed))
        waits = context.state.get(place)
        if waits is None:
            return
        if (target := waits.get("target")) is not None:
            del context.state[place]
            await context.transfer(target["agent"], message=target["message"])
            return
        reply = await context.ask(waits["question"])
        resumed = Resumed(waits["kept"], reply)


def _making(
    context: AgentContext, work: Work, explain: Explain, place: str, resumed: Resumed | None
) -> Callable[[Show], Awaitable[Event]]:
    async def make(show: Show) -> Event:
        voice = Voice(context, show)
        began = time.perf_counter()
        try:
            said = await work(voice, resumed)
        except TurnwiseError:
            raise
        except Exception as error:
            raise explain(error) from error
        usage = said.usage and said.usage.model_copy(update={"ms": (time.perf_counter() - began) * 1000})
        if said.question is not None:
            context.state[place] = {"question": said.question, "kept": said.kept}
            return context.event(usage=usage)
        if said.target is not None:
            context.state[place] = {"target": said.target.kept()}
            return await voice.whole(said.parts, usage, ends=False)
        if resumed is not None:
            del context.state[place]
        return await voice.whole(said.parts, usage)

    return make


async def given(value: Any, context: AgentContext) -> Any:
    """The value, or what it gives when it is a function of the context, sync or async."""
    made = value(context) if callable(value) else value
    return await made if inspect.isawaitable(made) else made


def text_parts(text: str) -> tuple[Part, ...]:
    """The text as parts: none when it is empty."""
    return (TextPart(text=text),) if text else ()
