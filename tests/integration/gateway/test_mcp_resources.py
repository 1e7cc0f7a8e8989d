"""Sessions and files as what can be read, with the protocol's own client over real sockets."""

import base64

import pytest
from gateway_play import key_for, served
from mcp_client_play import MODES, WITH_AGENTS, client_of, error_from, talking

from turnwise import AgentContext, LlmAgent, Runner, SqlSessionStore, agent
from turnwise.facts.gateway import AuthConfig
from turnwise.stores.artifacts.local import InMemoryArtifactStore
from turnwise.testing.models import ScriptedModel, calls
from turnwise.tools.function import tool

AUTH = WITH_AGENTS.replace(auth=AuthConfig())
MISSING = {"auto": -32602, "legacy": -32002}


@agent
async def talker(message: str, context: AgentContext) -> str:
    for number in range(int(message) if message.isdigit() else 0):
        await context.say(f"word {number}")
    return f"You said {message}"


@pytest.mark.parametrize("mode", MODES)
async def test_the_callers_sessions_come_a_page_at_a_time(mode: str) -> None:
    async with talking(talker, mode) as talk:
        names = [f"s{number:03}" for number in range(101)]
        for name in names:
            await talk.ask("hi", session=name)
        first = await talk.client.list_resources()
        second = await talk.client.list_resources(cursor=first.next_cursor)
        found = [*first.resources, *second.resources]
        assert ([each.name for each in found], len(first.resources), second.next_cursor) == (names, 100, None)
        assert found[0].uri == "turnwise://sessions/s000"
        assert found[0].annotations is not None
        assert found[0].annotations.last_modified is not None
        error = await error_from(talk.client.list_resources(cursor="made up"))
        assert (error.code, error.data["code"]) == (-32602, "store.cursor")


@pytest.mark.parametrize("mode", MODES)
async def test_a_conversation_is_read_from_its_end(mode: str) -> None:
    async with talking(talker, mode) as talk:
        await talk.ask("250", session="a b/ü")
        (listed,) = (await talk.client.list_resources()).resources
        assert listed.uri == "turnwise://sessions/a%20b%2F%C3%BC"
        newest = await talk.read(listed.uri)
        assert (newest["session"], newest["artifacts"]) == ("a b/ü", [])
        numbers, pages = [each["sequence"] for each in newest["events"]], 1
        page = newest
        while "earlier" in page:
            page, pages = await talk.read(page["earlier"]), pages + 1
            numbers = [*(each["sequence"] for each in page["events"]), *numbers]
        assert numbers == [*range(1, len(numbers) + 1)]
        assert (pages, len(newest["events"])) == (3, 100)
        assert newest["events"][-1]["content"]["parts"] == [{"kind": "text", "text": "You said 250"}]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "uri",
    [
        "turnwise://sessions/other",
        "turnwise://sessions/other/artifacts/a.txt",
        "turnwise://sessions/s/artifacts/a.txt",
        "turnwise://sessions/s?before=x",
        "turnwise://sessions/",
        "turnwise://agents/desk",
        "file:///etc/passwd",
        "nothing",
        "turnwise://sessions/%ff",
        "turnwise://sessions/%00",
        "turnwise://sessions/" + "x" * 9000,
    ],
)
async def test_what_is_not_there(mode: str, uri: str) -> None:
    async with talking(talker, mode, artifacts=InMemoryArtifactStore()) as talk:
        await talk.ask("hi", session="s")
        error = await error_from(talk.client.read_resource(uri))
        assert (error.code, error.data["uri"]) == (MISSING[mode], uri)


async def test_files_are_text_or_bytes() -> None:
    store = InMemoryArtifactStore()
    async with talking(talker, artifacts=store) as talk:
        await talk.ask("hi", session="s")
        key = talk.runner.key("local", "s")
        for data, kind in ((b"one", "text/plain"), (b"\xff\xfe", "text/plain"), (b"\x00", "image/png")):
            await store.save(key, "file", data, mime_type=kind)
        (kept,) = (await talk.read("turnwise://sessions/s"))["artifacts"]
        assert kept == {
            "uri": "turnwise://sessions/s/artifacts/file",
            "name": "file",
            "version": 3,
            "mime_type": "image/png",
        }
        found = []
        for uri in (f"{kept['uri']}?version=1", f"{kept['uri']}?version=2", kept["uri"]):
            (contents,) = (await talk.client.read_resource(uri)).contents
            told = contents.model_dump()
            found.append(told.get("text") or base64.b64decode(told["blob"]))
        assert found == ["one", b"\xff\xfe", b"\x00"]
        assert (await error_from(talk.client.read_resource(f"{kept['uri']}?version=4"))).code == -32602


async def test_users_read_what_they_may() -> None:
    @tool
    def look_up(number: int) -> str:
        """Looks something up."""
        return "a secret of the house"

    clerk = LlmAgent("clerk", model=ScriptedModel(calls("look_up", {"number": 4711}), "Done."), tools=[look_up])
    runner = Runner(clerk, store=SqlSessionStore("sqlite://"))
    ann, operator = await key_for(runner, user="ann"), await key_for(runner, role="operator", user="otto")
    async with served(runner, AUTH) as gateway:
        async with client_of(gateway.address, key=ann) as client:
            await client.call_tool("ask", {"message": "hi", "session": "s"})
            hers = str(await client.read_resource("turnwise://sessions/s"))
        async with client_of(gateway.address, key=operator, path="/mcp?user=ann") as client:
            whole = str(await client.read_resource("turnwise://sessions/s"))
        async with client_of(gateway.address, key=operator) as client:
            assert (await error_from(client.read_resource("turnwise://sessions/s"))).data["code"] == "session.missing"
            assert (await client.list_resources()).resources == []
    await runner.close()
    assert "look_up" in hers
    assert "4711" in whole
    assert "secret" in whole
    assert "4711" not in hers
    assert "secret" not in hers
