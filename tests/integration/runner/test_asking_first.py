"""A selector that asks somebody else takes a while: the message is accepted before (decision 9 of the design, C20)."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from runner_play import ask, key, log, reason, soon

from turnwise import Limits, PolicySpec, RunConfig, Runner, SqlSessionStore, agent
from turnwise.facts.errors import QueueFull
from turnwise.facts.selections import Verdict
from turnwise.facts.tree import AgentTree
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection.policy import StageSpec
from turnwise.selection.verdicts import abstained, chosen
from turnwise.testing.fake_encoder import BagOfWordsEncoder

ASKING = PolicySpec(name="asking", stages=(StageSpec(selector="slow"),))


class Slow:
    """Asks about what begins with "ask", and answers when it is let go."""

    def __init__(self) -> None:
        self.name = "slow"
        self.asked, self.go = asyncio.Event(), asyncio.Event()
        self.count = 0

    def asks(self, request: SelectionRequest) -> bool:
        return request.text.startswith("ask")

    async def select(self, request: SelectionRequest) -> Verdict:
        if not self.asks(request):
            return abstained(self.name, "That is clear.")
        self.count += 1
        self.asked.set()
        await self.go.wait()
        return chosen(self.name, "child", method="slow", confidence=0.9, reason="Somebody said so.")


def runner(path: str, slow: Slow, **options: object) -> Runner:
    @agent
    def child(message: str) -> str:
        return f"child: {message}"

    @agent(children=[child])
    def root(message: str) -> str:
        return f"root: {message}"

    def made(_: AgentTree) -> Selector:
        return slow

    store = SqlSessionStore(f"sqlite:///{path}")
    return Runner(root, store=store, policy=ASKING, custom_selectors={"slow": made}, **options)  # type: ignore[arg-type]


async def test_the_message_is_accepted_while_the_selector_asks(tmp_path: Path) -> None:
    slow = Slow()
    front = runner(f"{tmp_path}/s.db", slow)
    invocation = await soon(front.start("ask", user="ada", session="s", message_id="m"))
    await soon(slow.asked.wait())
    receipt = await front.store.inbox.receipt(key(), "m")
    assert receipt is not None
    assert receipt.state == "queued"
    assert await log(front) == []
    slow.go.set()
    result = await soon(invocation.result())
    assert (result.text, slow.count) == ("child: ask", 1)
    assert await log(front) == [("user", "ask"), ("child", "child: ask")]
    receipt = await front.store.inbox.receipt(key(), "m")
    assert receipt is not None
    assert receipt.state != "queued"
    await front.close()


async def test_what_is_clear_is_accepted_with_its_decision(tmp_path: Path) -> None:
    slow = Slow()
    front = runner(f"{tmp_path}/s.db", slow)
    assert (await soon(ask(front, "plain"))).text == "root: plain"
    assert slow.count == 0
    await front.close()


async def test_whoever_comes_meanwhile_waits_in_line(tmp_path: Path) -> None:
    slow = Slow()
    front = runner(f"{tmp_path}/s.db", slow)
    first = await soon(front.start("ask", user="ada", session="s"))
    second = await soon(front.start("plain", user="ada", session="s"))
    slow.go.set()
    assert (await soon(first.result())).text == "child: ask"
    assert (await soon(second.result())).text == "root: plain"
    assert [text for _, text in await log(front)] == ["ask", "child: ask", "plain", "root: plain"]
    await front.close()


async def test_without_a_queue_it_is_answered_all_the_same(tmp_path: Path) -> None:
    slow = Slow()
    front = runner(f"{tmp_path}/s.db", slow, config=RunConfig(limits=Limits(queue=0)))
    first = await soon(front.start("ask", user="ada", session="s"))
    with pytest.raises(QueueFull):
        await soon(front.start("plain", user="ada", session="s"))
    slow.go.set()
    assert (await soon(first.result())).text == "child: ask"
    await front.close()


async def test_a_process_that_dies_while_it_asks_leaves_the_message_to_another(tmp_path: Path) -> None:
    slow, other = Slow(), Slow()
    dead = runner(f"{tmp_path}/s.db", slow)
    await soon(dead.start("ask", user="ada", session="s", message_id="m"))
    await soon(slow.asked.wait())  # and no answer ever comes: as if the process was gone
    other.go.set()
    alive = runner(f"{tmp_path}/s.db", other)
    assert await soon(alive.recover()) == 1
    handle = await soon(alive.attach(user="ada", session="s", message_id="m"))
    result = await soon(handle.result())
    assert (result.text, reason(result)) == ("child: ask", "completed")
    slow.go.set()
    await soon(dead.idle())
    assert [text for _, text in await log(alive)] == ["ask", "child: ask"]
    await dead.close()
    await alive.close()


class Distant(BagOfWordsEncoder):
    """Vectors of messages that come from elsewhere, when they are let go."""

    def __init__(self) -> None:
        super().__init__(is_local=False)
        self.asked, self.go = threading.Event(), threading.Event()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if "my parcel" in texts:
            self.asked.set()
            assert self.go.wait(30)
        return super().encode(texts)


async def test_so_it_is_when_the_vectors_come_from_elsewhere(tmp_path: Path) -> None:
    encoder = Distant()

    @agent(name="parcels", description="Parcels.", examples=["where is my parcel"])
    def parcels(message: str) -> str:
        return "here"

    @agent(children=[parcels])
    def root(message: str) -> str:
        return "root"

    front = Runner(root, store=SqlSessionStore(f"sqlite:///{tmp_path}/s.db"), policy="staples", encoder=encoder)
    invocation = await soon(front.start("my parcel", user="ada", session="s", message_id="m"))
    assert await asyncio.to_thread(encoder.asked.wait, 30)
    receipt = await front.store.inbox.receipt(key(), "m")
    assert receipt is not None
    assert receipt.state == "queued"
    encoder.go.set()
    assert (await soon(invocation.result())).text == "here"
    await front.close()
