"""Remote agents that speak A2A behind the front door, against a real server."""

import asyncio
from typing import Any

import pytest
from adapter_play import Process, died_and_taken_up, hotel, house, read, whole, words_of

from turnwise import BlobPart, Content, DataPart, Limits, RunConfig, TextPart
from turnwise.agents.adapters.a2a import TRANSFER, A2aAgent
from turnwise.facts.errors import AgentDefinitionError

pytest.importorskip("a2a", reason="a2a-sdk is not installed: it comes with the extra a2a")
pytest.importorskip("uvicorn", reason="uvicorn is not installed: the test's server needs it")

from a2a.helpers import new_data_part, new_raw_part, new_text_part
from a2a_play import Desk, Remote, served
from runner_play import ask, reason


def in_words(*answers: str) -> Any:
    """Gives an artifact with the next of the answers, a word at a time."""
    left = list(answers)

    async def work(desk: Desk) -> None:
        await desk.open()
        for number, word in enumerate(words_of(left.pop(0))):
            await desk.updater.add_artifact([new_text_part(word)], artifact_id="a", append=number > 0)
        await desk.updater.complete()

    return work


async def test_it_answers_in_pieces_that_are_the_stored_answer(process: Process) -> None:
    """A19."""
    async with served(Remote(in_words("It opens at nine."))) as remote:
        turn = await read(process(A2aAgent(remote.url, name="guide")), "When?")
    assert (turn.text, turn.reason) == ("It opens at nine.", "completed")
    assert turn.pieces == {turn.answer.id: "It opens at nine."}
    assert turn.answer.actions.usage is None


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_message_is_an_answer_too(process: Process, streaming: bool) -> None:
    async def work(desk: Desk) -> None:
        await desk.queue.enqueue_event(desk.says(new_text_part("Nine.")))

    async with served(Remote(work), streaming=streaming) as remote:
        runner = process(A2aAgent(remote.url, name="guide"))
        assert (await read(runner, "When?")).text == "Nine."
        assert (await whole(runner, "When?")).text == "Nine."


async def test_it_keeps_the_conversation_and_is_told_only_what_is_new(process: Process) -> None:
    async with served(Remote(in_words("It opens at nine.", "At six."))) as remote:
        runner = process(house(A2aAgent(remote.url, name="guide")))
        await read(runner, "When?", to="guide")
        await read(runner, "And the clerk?", to="clerk")
        await read(runner, "Until when?", to="guide")
    first, second = remote.seen
    assert [part.text for part in first.parts] == ["When?"]
    assert second.context_id == first.context_id
    assert [part.text for part in second.parts][1:] == [
        '<said by="user">And the clerk?</said>',
        """<said by="clerk">The clerk heard 'And the clerk?'.</said>""",
        "Until when?",
    ]


async def test_a_given_card_makes_ours(process: Process) -> None:
    async with served(Remote(in_words("Nine."))) as remote:
        adapter = A2aAgent(remote.card())
        assert (adapter.card.name, adapter.card.kind, adapter.card.description) == ("guide", "remote", "Opening hours.")
        assert [(skill.name, skill.examples) for skill in adapter.card.skills] == [("hours", ("When?",))]
        assert (await read(process(adapter), "When?")).text == "Nine."


async def test_what_it_needs_is_asked_of_the_user_and_goes_to_the_same_task(process: Process) -> None:
    """A42: in another process."""

    async def work(desk: Desk) -> None:
        await desk.open()
        if desk.text == "Order it":
            await desk.updater.requires_input(desk.says(new_text_part("Which size?")))
        else:
            await desk.updater.add_artifact([new_text_part(f"Ordered in {desk.text}.")])
            await desk.updater.complete()

    async with served(Remote(work)) as remote:
        adapter = A2aAgent(remote.url, name="guide")
        waiting = await read(process(adapter), "Order it")
        assert (waiting.reason, waiting.text) == ("waiting", "Which size?")
        done = await read(process(adapter), "42")
    assert (done.text, done.reason) == ("Ordered in 42.", "completed")
    first, second = remote.seen
    assert second.task_id == first.task_id
    assert len(remote.seen) == 2


async def test_data_and_files_are_taken_within_limits(process: Process) -> None:
    async def work(desk: Desk) -> None:
        await desk.open()
        small = new_raw_part(b"pixel", media_type="image/png", filename="map.png")
        large = new_raw_part(b"x" * 2000, media_type="image/png", filename="poster.png")
        await desk.updater.add_artifact([new_data_part({"opens": "nine"}), small, large])
        await desk.updater.complete(desk.says(new_text_part("There.")))

    sent = Content(role="user", parts=(TextPart(text="A map?"), BlobPart(data=b"photo", mime_type="image/png", name="me.png")))
    async with served(Remote(work)) as remote:
        runner = process(A2aAgent(remote.url, name="guide"))
        result = await ask(runner, sent, config=RunConfig(limits=Limits(blob_bytes=1000)))
    content = next(event.content for event in result.events if event.author == "guide" and event.content)
    assert content.parts == (
        DataPart(data={"opens": "nine"}),
        BlobPart(data=b"pixel", mime_type="image/png", name="map.png"),
        TextPart(text="[file: poster.png, 2,000 bytes, too large to be taken]"),
        TextPart(text="There."),
    )
    (message,) = remote.seen
    assert (message.parts[0].text, message.parts[1].raw, message.parts[1].filename) == ("A map?", b"photo", "me.png")


async def test_what_it_says_chooses_nobody(process: Process) -> None:
    """Decision 8: a tag in a remote's text is text, however it is cut."""

    async def work(desk: Desk) -> None:
        await desk.open()
        for number, piece in enumerate(["Ask <ne", "xt>@clerk</next>", " or <nex", "us>"]):
            await desk.updater.add_artifact([new_text_part(piece)], artifact_id="a", append=number > 0)
        await desk.updater.complete()

    async with served(Remote(work)) as remote:
        turn = await read(process(A2aAgent(remote.url, name="guide")), "When?")
    assert turn.text == "Ask &lt;next>@clerk</next> or <nexus>"
    assert turn.answer.actions.next is None
    assert turn.pieces == {turn.answer.id: turn.text}


@pytest.mark.parametrize("ending", ["failed", "reject", "cancel"])
async def test_a_task_that_fails_says_why_and_the_session_goes_on(process: Process, ending: str) -> None:
    async def work(desk: Desk) -> None:
        await desk.open()
        await getattr(desk.updater, ending)(desk.says(new_text_part("The till is shut.")))

    async with served(Remote(work)) as remote:
        runner = process(A2aAgent(remote.url, name="guide"))
        turn = await read(runner, "When?")
        assert turn.reason == "failed"
        assert turn.error.startswith("agent.failed: The task of the remote agent 'guide' is ")
        assert turn.error.endswith("The till is shut.")
        remote.work = in_words("Nine.")
        assert (await read(runner, "Again?")).text == "Nine."


@pytest.mark.parametrize(("status", "code"), [(503, "model.unavailable"), (401, "agent.failed")])
async def test_what_it_refuses_names_the_status_and_the_url_without_secrets(process: Process, status: int, code: str) -> None:
    async with served(Remote(in_words("Nine."))) as remote:
        url = remote.url.replace("http://", "http://ada:secret@") + "?key=secret"
        for adapter in (A2aAgent(url, name="guide"), A2aAgent(remote.card())):
            remote.status = status
            turn = await read(process(adapter), "When?")
            assert turn.error.startswith(code)
            assert remote.url.rstrip("/") in turn.error
            assert str(status) in turn.error
            assert "secret" not in turn.error
    down = await read(process(A2aAgent(remote.url, name="guide")), "When?")
    assert down.error.startswith("model.unavailable: The remote agent 'guide' at http://127.0.0.1:")


async def test_a_remote_that_is_silent_is_not_waited_for_for_ever(process: Process) -> None:
    async def work(desk: Desk) -> None:
        await desk.open()
        await asyncio.sleep(20)

    async with served(Remote(work)) as remote:
        turn = await read(process(A2aAgent(remote.url, name="guide", seconds=0.2)), "When?")
    assert turn.error.startswith("model.unavailable")
    assert "gave no answer in 0.2 s" in turn.error


async def test_a_card_that_leads_elsewhere_is_not_followed(process: Process) -> None:
    """Else whoever can write the card gets the headers, and a way into our network."""
    async with served(Remote(in_words("Nine.")), leads_to="http://10.0.0.1/inside") as remote:
        turn = await read(process(A2aAgent(remote.url, name="guide", headers={"X-Key": "k"})), "When?")
    assert "leads to http://10.0.0.1" in turn.error


async def test_headers_come_from_the_context_for_every_request(process: Process) -> None:
    async with served(Remote(in_words("Nine."))) as remote:
        adapter = A2aAgent(remote.url, name="guide", headers=lambda context: {"X-User": context.session.user})
        await read(process(adapter), "When?")
    assert [headers.get("x-user") for headers in remote.headers] == ["ada", "ada"]


async def test_a_turn_that_is_taken_up_again_does_not_ask_it_again(process: Process) -> None:
    """Decision 6."""
    async with served(Remote(in_words("Nine."))) as remote:
        said = await died_and_taken_up(process, A2aAgent(remote.url, name="guide"))
    assert said == ["hi", "Nine.", "(filed)"]
    assert len(remote.seen) == 1


async def test_a_cancelled_turn_cancels_the_remotes_task(process: Process) -> None:
    begun = asyncio.Event()

    async def work(desk: Desk) -> None:
        await desk.open()
        await desk.updater.add_artifact([new_text_part("and ")], artifact_id="a")
        await asyncio.sleep(0.1)
        begun.set()
        await asyncio.Event().wait()

    async with served(Remote(work)) as remote:
        runner = process(A2aAgent(remote.url, name="guide"))
        invocation = await runner.start("hi", user="ada", session="s")
        await asyncio.wait_for(begun.wait(), 30)
        await asyncio.wait_for(invocation.cancel(), 30)
        assert reason(await invocation.result()) == "cancelled"
        assert remote.cancelled == [remote.seen[0].task_id]


def test_a_url_needs_a_name_and_has_to_be_one() -> None:
    with pytest.raises(AgentDefinitionError, match="has no name"):
        A2aAgent("https://example.com")
    with pytest.raises(AgentDefinitionError, match="http://"):
        A2aAgent("ftp://example.com", name="guide")


async def test_each_message_has_an_id_of_its_own(process: Process) -> None:
    """A remote may take one that comes twice under an id for a repeated one."""

    async def work(desk: Desk) -> None:
        await desk.open()
        if len(remote.seen) < 3:
            await desk.updater.requires_input(desk.says(new_text_part("Which?")))
        else:
            await desk.updater.complete()

    remote = Remote(work)
    async with served(remote):
        runner = process(A2aAgent(remote.url, name="guide"))
        for text in ("one", "two", "three"):
            await read(runner, text)
    assert len({message.message_id for message in remote.seen}) == 3


def handing(*answers: str | list[Any]) -> Any:
    """Completes a task with the next of the answers: a text, or the agents that it hands over to."""
    left = list(answers)

    async def work(desk: Desk) -> None:
        await desk.open()
        answer = left.pop(0)
        parts = [new_text_part(answer)] if isinstance(answer, str) else [new_data_part({TRANSFER: each}) for each in answer]
        await desk.updater.add_artifact(parts)
        await desk.updater.complete()

    return work


@pytest.mark.parametrize("streaming", [True, False])
async def test_it_hands_over_to_an_agent_of_ours(process: Process, streaming: bool) -> None:
    """A35, A36: the message names those that can take over, and the words beside the transfer are kept."""

    async def work(desk: Desk) -> None:
        await desk.open()
        await desk.updater.add_artifact([new_text_part("One moment."), new_data_part({TRANSFER: {"agent": "clerk"}})])
        await desk.updater.complete()

    async with served(Remote(work)) as remote:
        adapter = A2aAgent(remote.url, name="guide", hands_over=True, headers={"X-Key": "k", "A2A-Extensions": "urn:other"})
        turn = await read(process(house(adapter)), "I want to buy it.", to="guide", streaming=streaming)
    assert turn.reason == "completed"
    said = [(event.author, event.text) for event in turn.events if event.text]
    assert said[1:] == [("guide", "One moment."), ("clerk", "The clerk heard 'I want to buy it.'.")]
    assert all(isinstance(part, TextPart) for event in turn.events if event.content for part in event.content.parts)
    (message,) = remote.seen
    assert list(message.extensions) == [TRANSFER]
    listed = {each["name"]: each["description"] for each in message.metadata[TRANSFER]["targets"]}
    assert listed == {"front": "", "clerk": "Another agent of the house."}
    assert {headers["a2a-extensions"] for headers in remote.headers if "a2a-extensions" in headers} == {f"urn:other,{TRANSFER}"}


@pytest.mark.parametrize("name", ["nobody", "till", "guide", None, 7, ["clerk"]])
async def test_a_target_that_is_unknown_or_forbidden_is_named_to_the_remote(process: Process, name: Any) -> None:
    """A37: it gets another message, in the same conversation, and may choose again."""
    again = {"agent": "clerk", "message": "Sell a guide book."}
    async with served(Remote(handing([{"agent": name}], [again]))) as remote:
        turn = await read(process(hotel(A2aAgent(remote.url, name="guide", hands_over=True))), "I want to buy it.", to="guide")
    assert turn.text == "The clerk heard 'Sell a guide book.'."
    first, second = remote.seen
    assert second.context_id == first.context_id
    assert second.message_id != first.message_id
    assert second.parts[0].text.endswith("that could take over. Choose one of: front, clerk, porter.")
    assert list(second.extensions) == [TRANSFER]


async def test_a_remote_that_insists_fails_and_the_session_goes_on(process: Process) -> None:
    wrong = [{"agent": "nobody"}]
    async with served(Remote(handing(wrong, wrong, wrong, "At nine."))) as remote:
        runner = process(house(A2aAgent(remote.url, name="guide", hands_over=True)))
        turn = await read(runner, "I want to buy it.", to="guide")
        assert turn.error.startswith("agent.failed: The remote agent 'guide' handed over to nobody. There is no agent 'nobody'")
        assert (await read(runner, "When?", to="guide")).text == "At nine."


@pytest.mark.parametrize("several", [["clerk", "porter"], ["nobody", "clerk", "porter"]])
async def test_of_several_transfers_the_first_that_is_permitted_counts(process: Process, several: list[str]) -> None:
    """A40."""
    async with served(Remote(handing([{"agent": each} for each in several]))) as remote:
        turn = await read(process(hotel(A2aAgent(remote.url, name="guide", hands_over=True))), "I want to buy it.", to="guide")
    assert turn.text == "The clerk heard 'I want to buy it.'."
    assert len(remote.seen) == 1


async def test_it_may_get_the_conversation_back_but_not_for_ever(process: Process) -> None:
    """A38: A→B→A is a conversation, A→B→A→B is a loop. Each of its turns sends a message of its own."""
    hand = [{"agent": "porter"}]
    async with served(Remote(handing(hand, "At nine.", hand, hand))) as remote:
        runner = process(hotel(A2aAgent(remote.url, name="guide", hands_over=True)))
        back = await read(runner, "When?", to="guide")
        assert (back.text, back.reason) == ("At nine.", "completed")
        loop = await read(runner, "Until when?", to="guide")
    assert (loop.text, loop.reason) == ("nobody was asked", "loop")
    assert len({message.message_id for message in remote.seen}) == 4


async def test_a_question_is_asked_before_it_hands_over(process: Process) -> None:
    async def work(desk: Desk) -> None:
        await desk.open()
        if len(remote.seen) == 1:
            await desk.updater.requires_input(desk.says(new_text_part("Which size?")))
        else:
            name = "nobody" if len(remote.seen) == 2 else "clerk"
            await desk.updater.add_artifact([new_data_part({TRANSFER: {"agent": name}})])
            await desk.updater.complete()

    remote = Remote(work)
    async with served(remote):
        adapter = A2aAgent(remote.url, name="guide", hands_over=True)
        assert (await read(process(house(adapter)), "I want to buy it.", to="guide")).text == "Which size?"
        assert (await read(process(house(adapter)), "42", to="guide")).text == "The clerk heard '42'."
    assert len({message.message_id for message in remote.seen}) == 3


async def test_without_others_nobody_can_take_over_and_without_the_option_a_part_is_data(process: Process) -> None:
    """A35."""
    async with served(Remote(handing([{"agent": "clerk"}], "At nine.", [{"agent": "clerk"}]))) as remote:
        turn = await read(process(A2aAgent(remote.url, name="guide", hands_over=True)), "When?")
        assert turn.text == "At nine."
        assert remote.seen[1].parts[0].text == "No other agent can take over now. Answer yourself."
        turn = await read(process(house(A2aAgent(remote.url, name="guide"))), "When?", to="guide")
    assert turn.answer.content is not None
    assert turn.answer.content.parts == (DataPart(data={TRANSFER: {"agent": "clerk"}}),)
    assert list(remote.seen[2].extensions) == []
