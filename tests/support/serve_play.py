"""How tests run `turnwise serve` as a process of its own, and talk to it."""

import signal
from pathlib import Path
from typing import Any

import httpx
from cli_play import ended, heard, started, written
from gateway_play import DEADLINE_SECONDS, events_in

AGENTS = """
import asyncio
from pathlib import Path
from turnwise import AgentContext, agent

@agent
def desk(message):
    return f"You said {message}"

@agent(patterns=["slow"])
async def slow(context: AgentContext):
    for word in ("one", "two"):
        await context.say(word)
    while Path("hold").exists():
        await asyncio.sleep(0.02)
    return "three"

@agent(patterns=["stubborn"])
async def stubborn(context: AgentContext):
    await context.say("I stay")
    while Path("hold").exists():
        try:
            await asyncio.sleep(0.02)
        except asyncio.CancelledError:
            pass
    return "I go"
"""
CONFIGURATION = """
app: test
root: desk
agents: ['serve_agents:desk', 'serve_agents:slow', 'serve_agents:stubborn']
process: {lease_seconds: 1, recovery_seconds: 0.1}
"""
STREAM = {"Accept": "text/event-stream"}
MESSAGES = "/api/v1/sessions/s/messages"


class Process:
    """The command at a free port, ready for messages. said: what it said in the beginning."""

    def __init__(self, folder: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        self.process = started("serve", "--port", "0", *options, cwd=folder, environment=environment)
        try:
            self.said = [heard(self.process, "Serving ")]
            while "try it: " not in self.said[-1]:
                self.said.append(heard(self.process, ""))
            heard(self.process, "ready after")
        except BaseException:
            self.kill()
            raise
        self.address = self.said[-1].split("curl ")[1].split("/api/")[0]

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.address, timeout=DEADLINE_SECONDS, trust_env=False, **options)

    def hears(self, words: str) -> str:
        """The next line that it says with these words in it."""
        return heard(self.process, words)

    def told_to_stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(by)

    def ended(self) -> tuple[int, str]:
        """Its exit code, and what it still said."""
        return ended(self.process)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def project(folder: Path, more: str = "") -> Path:
    """A project with an agent that holds as long as there is a file `hold`, and one that does not let itself be stopped."""
    return written(folder, CONFIGURATION + more, serve_agents=AGENTS)


def read_until(lines: Any, words: str) -> list[tuple[str, str, str]]:
    """The events of a stream up to the one with these words in it."""
    text = ""
    for line in lines:
        text += line + "\n"
        if not line and words in text:
            return events_in(text)
    raise AssertionError(f"{words!r} never came: {text}")
