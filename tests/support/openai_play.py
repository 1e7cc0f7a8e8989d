"""How tests talk to a gateway with OpenAI's own client."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import openai
from gateway_play import Served, served
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from turnwise import Runner, SqlSessionStore
from turnwise.facts.gateway import GatewayConfig

Messages = list[dict[str, Any]]


class Chat(NamedTuple):
    """A gateway that is served, the runner behind it, and a client that does not repeat requests by itself."""

    client: openai.AsyncOpenAI
    gateway: Served
    runner: Runner

    async def ask(self, *messages: Any, model: str = "turnwise", **options: Any) -> ChatCompletion:
        """The answer; a text is a message of the user's."""
        answer: ChatCompletion = await self.client.chat.completions.create(model=model, messages=told(messages), **options)
        return answer

    async def pieces(self, *messages: Any, model: str = "turnwise", **options: Any) -> list[ChatCompletionChunk]:
        """The answer as a stream, read to its end."""
        asked = {"stream_options": {"include_usage": True}, **options}
        stream = await self.client.chat.completions.create(model=model, messages=told(messages), stream=True, **asked)
        return [chunk async for chunk in stream]

    async def sessions(self, user: str = "local") -> list[str]:
        """The ids of a user's sessions."""
        return [info.key.id for info in (await self.runner.store.list(self.runner.app, user=user)).items]

    async def log(self, session: str, user: str = "local") -> list[tuple[str, str]]:
        """Who said what in a session."""
        events = await self.runner.sessions.events(self.runner.key(user, session))
        return [(event.author, event.text) for event in events if event.text]


@asynccontextmanager
async def chatting(root: Any, gateway: GatewayConfig | None = None, **options: Any) -> AsyncIterator[Chat]:
    """A gateway in front of that agent, and OpenAI's client. Options are the runner's."""
    runner = Runner(root, **{"store": SqlSessionStore("sqlite://"), **options})
    try:
        async with served(runner, gateway) as address, client_of(address) as client:
            yield Chat(client, address, runner)
    finally:
        await runner.close()


def client_of(gateway: Served, key: str = "none", **options: Any) -> openai.AsyncOpenAI:
    """A client of that gateway with this key."""
    return openai.AsyncOpenAI(base_url=f"{gateway.address}/v1", api_key=key, max_retries=0, **options)


def told(messages: Sequence[Any]) -> Any:
    """Messages as the client takes them."""
    return [user(each) if isinstance(each, str) else each for each in messages]


def user(text: Any) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def said(answer: ChatCompletion) -> str:
    """The text of an answer."""
    return answer.choices[0].message.content or ""


def joined(chunks: Iterable[ChatCompletionChunk]) -> str:
    """The text of an answer that came in pieces."""
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def session_of(answer: ChatCompletion) -> str:
    """In which session it is on record."""
    known: dict[str, Any] = (answer.model_extra or {})["turnwise"]
    return str(known["session_id"])
