"""MCP servers that are started as programs: real ones, in processes of their own."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mcp_play
import pytest
from tool_play import called, turn, until

from turnwise import AgentContext
from turnwise.facts.errors import ConfigError, ToolFailed
from turnwise.ports.tool import Tool
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.tools.mcp_toolset import McpServer

NO_CONTEXT: Any = None


def play(*switches: str, **options: Any) -> McpServer:
    options = {"env": {"PLAY_KEY": "the-secret"}, "name": "play", "connect_seconds": 60, **options}
    return McpServer(command=sys.executable, args=[mcp_play.__file__, *switches], **options)


async def by_name(server: McpServer) -> Mapping[str, Tool]:
    return {tool.spec.name: tool for tool in await server.tools(NO_CONTEXT)}


async def test_its_tools_are_tools() -> None:
    server = play("--wordy")
    tools = await by_name(server)
    assert list(tools)[:4] == ["add", "shout", "weather", "picture"]
    assert list(tools)[-1].startswith("admin_tools_grow_")
    add: Any = tools["add"].spec
    assert (add.description, add.parameters["required"]) == ("Adds two numbers.", ["a", "b"])
    assert await called(tools["add"], a=1, b=2) == {"result": 3}
    assert await called(tools["shout"], text="hello") == "HELLO"
    assert await called(tools["weather"], city="Ulm") == {"city": "Ulm", "degrees": 21}
    assert await called(tools["variable"], name="PLAY_KEY") == {"result": "the-secret"}
    with pytest.raises(ToolFailed, match="\"a\": 'one' is not of type 'integer'"):
        await called(tools["add"], a="one", b=2)
    with pytest.raises(ToolFailed, match="fail"):
        await called(tools["fail"], why="reasons")
    await server.close()


async def test_pictures_are_kept_as_artifacts() -> None:
    server = play()
    told: list[Any] = []

    async def work(context: AgentContext) -> str:
        tools = {tool.spec.name: tool for tool in await server.tools(context)}
        told.append(await called(tools["picture"], context))
        kept = await context.artifacts.load("picture_call-1_1")
        told.append(kept and kept.data)
        return "done"

    await turn(work, artifacts=InMemoryArtifactStore())
    picture = {"artifact": "picture_call-1_1", "version": 1, "mime_type": "image/png", "bytes": len(mcp_play.PIXEL)}
    assert told == [["A pixel", picture], mcp_play.PIXEL]
    await server.close()


async def test_which_tools_under_which_names_and_rules() -> None:
    server = play(prefix="play ", only=["add", "shout", "die", "nothing"], without=["die"], confirm=["shout"], seconds=7)
    add, shout = await server.tools(NO_CONTEXT)
    assert (add.spec.name[:9], add.rules.confirm, add.rules.seconds) == ("play_add_", False, 7)
    assert (shout.spec.name[:11], shout.rules.confirm, shout.rules.recorded) == ("play_shout_", True, True)
    assert await called(add, a=1, b=2) == {"result": 3}
    await server.close()


async def test_a_server_that_dies_in_a_call_is_told_and_started_again(capfd: pytest.CaptureFixture[str]) -> None:
    server = play("--wordy")
    tools = await by_name(server)
    first = await called(tools["process"])
    with pytest.raises(ToolFailed, match=r"'play' went away during the call.*Whether it did anything is not known"):
        await called(tools["die"])
    second = await called(tools["process"])
    assert first != second
    os.kill(int(str(second)), signal.SIGKILL)
    await asyncio.sleep(0.2)
    assert await called(tools["process"]) not in (first, second)
    await server.close()
    assert "much ado" not in capfd.readouterr().err


async def test_tools_that_change_are_listed_anew() -> None:
    server = play()
    tools = await by_name(server)
    assert list(await by_name(server)) == list(tools)
    await called(tools[next(name for name in tools if name.startswith("admin_"))])

    async def has_one_more() -> bool:
        return len(await by_name(server)) == len(tools) + 1

    await until(has_one_more)
    await server.close()


async def test_a_slow_call_can_be_given_up() -> None:
    server = play()
    tools = await by_name(server)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await called(tools["sleep"], seconds=60)
    assert await called(tools["shout"], text="next") == "NEXT"
    await server.close()


async def test_many_at_once_share_one_server_and_none_keeps_the_others_from_it() -> None:
    server = play()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await server.tools(NO_CONTEXT)

    async def process() -> Any:
        return await called((await by_name(server))["process"])

    assert len(set(await asyncio.gather(*(process() for _ in range(5))))) == 1
    await server.close()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"command": "no-such-program"}, "cannot be reached: .*No such file"),
        (
            {"args": [mcp_play.__file__, "--fails"]},
            "cannot be reached: .*the last that it wrote was: RuntimeError: the key — is",
        ),
        ({"args": [mcp_play.__file__, "--deaf"], "connect_seconds": 0.5}, r"cannot be reached: no answer within 0.5 s\."),
        ({"cwd": "/no/such/folder"}, "cannot be reached: .*No such file"),
    ],
)
async def test_a_server_that_does_not_start_is_told(settings: dict[str, Any], words: str) -> None:
    server = McpServer(**{"command": sys.executable, "env": {"PLAY_KEY": "the-secret"}, "connect_seconds": 60, **settings})
    with pytest.raises(ToolFailed, match=words) as failed:
        await server.tools(NO_CONTEXT)
    assert "the-secret" not in str(failed.value) + repr(server)
    await server.close()


async def test_closing_from_elsewhere() -> None:
    server = play()
    tools = await by_name(server)
    process = int(str(await called(tools["process"])))
    call = asyncio.create_task(called(tools["sleep"], seconds=60))
    await asyncio.sleep(0.1)
    await asyncio.gather(*(asyncio.create_task(server.close()) for _ in range(3)))
    with pytest.raises(ToolFailed, match="went away"):
        await call
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    await server.close()
    assert await called(tools["process"]) != str(process)
    await server.close()


async def test_each_event_loop_has_a_connection_of_its_own() -> None:
    server, found, stop = play(), [], threading.Event()

    def elsewhere() -> None:
        async def use() -> None:
            found.append(await called((await by_name(server))["process"]))
            await asyncio.to_thread(stop.wait)

        asyncio.run(use())

    thread = threading.Thread(target=elsewhere)
    thread.start()
    here = await called((await by_name(server))["process"])

    async def is_found() -> bool:
        return bool(found)

    await until(is_found)
    assert found != [here]
    await server.close()
    for process in (here, found[0]):
        with pytest.raises(ProcessLookupError):
            os.kill(int(str(process)), 0)
    stop.set()
    await asyncio.to_thread(thread.join)


async def test_a_loop_that_ends_takes_its_server_with_it() -> None:
    server = play()

    def elsewhere() -> Any:
        async def use() -> Any:
            return await called((await by_name(server))["process"])

        return asyncio.run(use())

    process = int(await asyncio.to_thread(elsewhere))
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    await server.close()


@pytest.mark.parametrize("settings", [{}, {"seconds": 0}, {"connect_seconds": 0}])
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        McpServer(**({"command": "a", **settings} if settings else {}))
    assert repr(McpServer(command=str(Path("/opt/files")), env={"A": "secret"})) == "McpServer('files')"
