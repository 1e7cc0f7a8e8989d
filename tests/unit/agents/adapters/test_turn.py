"""The conversation as agents of other libraries read it (D7)."""

from turnwise import Content, Runner, SqlSessionStore, agent
from turnwise.agents.adapters.adapter import HISTORY, ReadConversation, joined, new_message, read_conversation, usable_parts
from turnwise.facts.content import ArtifactPart, BlobPart, DataPart, TextPart, ThinkingPart, ToolCallPart
from turnwise.ports.context import AgentContext


def test_pieces_are_texts_and_files() -> None:
    image = BlobPart(data=b"x", mime_type="image/png")
    parts = (
        TextPart(text="a"),
        TextPart(text=""),
        DataPart(data={"b": 1}),
        image,
        ArtifactPart(name="c.pdf"),
        ThinkingPart(text="hm"),
        ToolCallPart(call_id="1", tool="t"),
    )
    found = usable_parts(Content(parts=parts))
    assert found == ["a", '{"b":1}', image, "[file: c.pdf]"]
    assert joined(found) == 'a\n{"b":1}\n[file: image/png]\n[file: c.pdf]'


async def test_what_is_heard_and_what_is_news() -> None:
    """News: nothing of its own, nothing from before; what the user said earlier is marked as said earlier."""
    got: list[tuple[ReadConversation, ReadConversation]] = []

    @agent
    async def listener(context: AgentContext) -> str:
        since = got[0][1].until if got else 0
        got.append((await read_conversation(context, HISTORY), await new_message(context, HISTORY, since)))
        return f"answer {len(got)}"

    runner = Runner(listener, store=SqlSessionStore("sqlite://"))
    for text in ("one", "two"):
        await (await runner.start(text, user="ada", session="s")).result()
    await runner.close()
    (all_one, new_one), (all_two, new_two) = got
    assert [message.text for message in all_one.messages] == ["one"]
    assert [message.text for message in new_one.messages] == ["one"]
    assert [(message.role, message.text) for message in all_two.messages] == [
        ("user", "one"),
        ("agent", "answer 1"),
        ("user", "two"),
    ]
    assert [message.text for message in new_two.messages] == ["two"]
    assert new_two.until > new_one.until
