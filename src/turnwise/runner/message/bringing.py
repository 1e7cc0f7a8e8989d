"""Exchanges that were had elsewhere, as ended invocations that can be put on record."""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from turnwise.facts.content import Content
from turnwise.facts.errors import MessageError, MessageTooLarge
from turnwise.facts.events import USER, End, Event
from turnwise.facts.limits import RunConfig
from turnwise.facts.messages import Message
from turnwise.facts.sessions import SessionKey
from turnwise.runner.accept import checked_id, incoming
from turnwise.runner.guards.guarding import Guarding
from turnwise.runner.message.driver import Driver
from turnwise.runner.message.job import Job
from turnwise.runner.record.closing import acting, bare_event
from turnwise.runner.turn.floor import Cast


class PastExchange(NamedTuple):
    """A message of the user's, and what was said to it, in order: texts, calls of tools, and behind them their results.

    message: None = nobody had asked. id: the message's; None = it gets one.
    """

    message: Content | None
    said: tuple[Content, ...] = ()
    id: str | None = None


class Bringing:
    """Makes events of exchanges, for a session. Guardrails look at each as if it were had here, and files become artifacts."""

    def __init__(self, cast: Cast, driver: Driver, config: RunConfig) -> None:
        self._cast, self._driver, self._config = cast, driver, config
        self._guarding = Guarding(cast.guardrails, config.limits.guardrail_seconds)

    async def events(self, key: SessionKey, past: Sequence[PastExchange], author: str) -> list[Event]:
        """The events of these exchanges, one invocation for each; `author` said what was said. MessageError, ArtifactError;
        nothing is stored of them yet.
        """
        found: list[Event] = []
        for exchange in past:
            found += await self._exchange(key, exchange, author)
            await asyncio.sleep(0)  # others have their turn in between: there may be thousands
        return found

    async def _exchange(self, key: SessionKey, exchange: PastExchange, author: str) -> list[Event]:
        asked = None if exchange.message is None else await self._asked(key, exchange.message, exchange.id)
        id_ = self._cast.issuer.new_id("invocation") if asked is None else asked.invocation_id
        said = [await self._said(content, author, id_) for content in exchange.said]
        answers = said or [bare_event(self._cast.issuer, author, id_)]
        answers[-1] = acting(answers[-1], end=End())
        return answers if asked is None else [asked, *answers]

    async def _asked(self, key: SessionKey, content: Content, given: str | None) -> Event:
        id_ = self._cast.issuer.new_id("message") if given is None else checked_id("message", given)
        message = Message(id=id_, content=incoming(content, self._config.limits))
        job = Job(key, message, self._config)
        await self._driver.prepare(job)
        if job.blocked:
            raise job.blocked
        assert job.prepared is not None
        _, content, versions, guarded, _ = job.prepared
        event = Event(
            id=job.event_id,
            author=USER,
            invocation_id=job.prepared.invocation_id,
            created_at=self._cast.issuer.now(),
            content=content,
        )
        return acting(event, artifact_versions=dict(versions), guarded=guarded)

    async def _said(self, content: Content, author: str, invocation_id: str) -> Event:
        self._check(content)
        event = bare_event(self._cast.issuer, author, invocation_id, branch="1")
        return await self._guarding.event(event.model_copy(update={"content": content.model_copy(update={"role": "agent"})}))

    def _check(self, content: Content) -> None:
        limits = self._config.limits
        try:
            size = len(content.model_dump_json())
        except ValueError as error:
            raise MessageError(f"A past answer cannot be stored: {error}.", fix="Send text that UTF-8 can write.") from None
        if size > limits.message_bytes or len(content.parts) > limits.parts:
            raise MessageTooLarge(
                f"A past answer has {size:,} bytes and {len(content.parts)} parts; {limits.message_bytes:,} and {limits.parts} "
                "are allowed.",
                fix="Leave it out, or raise limits.message_bytes or limits.parts.",
            )
