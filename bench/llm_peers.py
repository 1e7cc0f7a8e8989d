"""Turns of other frameworks with their own stores, written as in their documentation. Each runs if it is installed."""

import importlib.util
import json
import sqlite3
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from bench import scene


class Peer(Protocol):
    """One framework. `package` is the module that must be importable."""

    package: ClassVar[str]

    def __init__(self, folder: Path, answer: str) -> None: ...
    async def seed(self, sessions: list[str], size: int) -> None:
        """Creates sessions with that many earlier messages."""
        ...

    async def turn(self, session: str) -> None:
        """Answers and stores one message."""
        ...

    async def close(self) -> None: ...


class PydanticAi:
    """pydantic-ai stores no sessions: the messages are a JSON column of our own, read and written as a whole."""

    package: ClassVar[str] = "pydantic_ai"

    def __init__(self, folder: Path, answer: str) -> None:
        from pydantic_ai import Agent
        from pydantic_ai.messages import ModelResponse, TextPart
        from pydantic_ai.models.function import FunctionModel

        self._answer = answer
        self._agent = Agent(
            FunctionModel(lambda _messages, _info: ModelResponse(parts=[TextPart(answer)])), instructions="You know all orders."
        )
        self._connection = sqlite3.connect(folder / "pydantic_ai.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE messages (session TEXT, place INTEGER, body TEXT, PRIMARY KEY (session, place))")

    async def seed(self, sessions: list[str], size: int) -> None:
        result = await self._agent.run(scene.MESSAGE)
        new = json.loads(result.new_messages_json())
        for session in sessions:
            self._store(session, 0, [new[place % len(new)] for place in range(size)])

    async def turn(self, session: str) -> None:
        from pydantic_ai.messages import ModelMessagesTypeAdapter

        rows = self._connection.execute("SELECT body FROM messages WHERE session = ? ORDER BY place", (session,)).fetchall()
        history = ModelMessagesTypeAdapter.validate_json("[" + ",".join(body for (body,) in rows) + "]")
        result = await self._agent.run(scene.MESSAGE, message_history=history)
        assert result.output == self._answer
        self._store(session, len(rows), json.loads(result.new_messages_json()))

    def _store(self, session: str, first: int, messages: list[Mapping[str, Any]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        rows = [(session, first + place, json.dumps(message)) for place, message in enumerate(messages)]
        self._connection.executemany("INSERT INTO messages VALUES (?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    async def close(self) -> None:
        self._connection.close()


class OpenaiAgents:
    """The OpenAI Agents SDK with its SQLite session."""

    package: ClassVar[str] = "agents"

    def __init__(self, folder: Path, answer: str) -> None:
        from agents import Agent, Model, ModelResponse, Usage, set_tracing_disabled
        from openai.types.responses import ResponseOutputMessage, ResponseOutputText

        set_tracing_disabled(True)
        self._answer, self._file = answer, folder / "openai_agents.db"

        class AtOnce(Model):  # type: ignore[misc, unused-ignore]
            async def get_response(self, *_: Any, **__: Any) -> ModelResponse:
                text = ResponseOutputText(text=answer, type="output_text", annotations=[])
                said = ResponseOutputMessage(id="1", content=[text], role="assistant", status="completed", type="message")
                return ModelResponse(output=[said], usage=Usage(), response_id=None)

            def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
                raise NotImplementedError

        self._agent = Agent(name="orders", instructions="You know all orders.", model=AtOnce())

    def _session(self, name: str) -> Any:
        from agents import SQLiteSession

        return SQLiteSession(name, self._file)

    async def seed(self, sessions: list[str], size: int) -> None:
        turn = [{"role": "user", "content": scene.MESSAGE}, {"role": "assistant", "content": self._answer}]
        for name in sessions:
            session = self._session(name)
            await session.add_items([turn[place % 2] for place in range(size)])
            session.close()

    async def turn(self, session: str) -> None:
        from agents import Runner

        opened = self._session(session)
        result = await Runner.run(self._agent, scene.MESSAGE, session=opened)
        opened.close()
        assert result.final_output == self._answer

    async def close(self) -> None:
        pass


class GoogleAdk:
    """Google's Agent Development Kit with its database session service."""

    package: ClassVar[str] = "google.adk"

    def __init__(self, folder: Path, answer: str) -> None:
        from google.adk.agents import LlmAgent
        from google.adk.models import BaseLlm, LlmResponse
        from google.adk.runners import Runner
        from google.adk.sessions import DatabaseSessionService
        from google.genai import types

        class AtOnce(BaseLlm):  # type: ignore[misc, unused-ignore]
            async def generate_content_async(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=answer)]))

        self._answer, self._types = answer, types
        agent = LlmAgent(name="orders", instruction="You know all orders.", model=AtOnce(model="at-once"))
        self._sessions = DatabaseSessionService(f"sqlite+aiosqlite:///{folder / 'google_adk.db'}")
        self._runner = Runner(app_name=scene.APP, agent=agent, session_service=self._sessions)

    async def seed(self, sessions: list[str], size: int) -> None:
        from google.adk.events import Event

        said = {"user": scene.MESSAGE, "orders": self._answer}
        for name in sessions:
            session = await self._sessions.create_session(app_name=scene.APP, user_id=scene.USER, session_id=name)
            for place in range(size):
                author = ("user", "orders")[place % 2]
                part = self._types.Part(text=said[author])
                role = "user" if author == "user" else "model"
                event = Event(
                    author=author, invocation_id=f"i{place // 2}", content=self._types.Content(role=role, parts=[part])
                )
                await self._sessions.append_event(session, event)

    async def turn(self, session: str) -> None:
        message = self._types.Content(role="user", parts=[self._types.Part(text=scene.MESSAGE)])
        said = [event async for event in self._runner.run_async(user_id=scene.USER, session_id=session, new_message=message)]
        assert said[-1].content.parts[0].text == self._answer

    async def close(self) -> None:
        pass


_ALL: Mapping[str, type[Peer]] = {"pydantic-ai": PydanticAi, "openai-agents": OpenaiAgents, "google-adk": GoogleAdk}


def installed(folder: Path, answer: str) -> dict[str, Peer]:
    """The frameworks that are installed, by name. One with missing parts is left out with a note on standard error."""
    found: dict[str, Peer] = {}
    for name, peer in _ALL.items():
        if not _is_there(peer.package):
            continue
        try:
            found[name] = peer(folder, answer)
        except ImportError as problem:
            print(f"{name} is left out: {' '.join(str(problem).split())}", file=sys.stderr)
    return found


def _is_there(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
