"""What providers refuse, break off or leave unsaid, over real HTTP in both formats."""

import threading
import traceback
from typing import Any

import pytest
from llm_servers import Answer, FakeOpenAI, Fault, Garbage
from provider_play import HELLO, KEY, Service, failure, reply

from turnwise.facts.errors import ModelAnswerInvalid, ModelRefused, ModelUnavailable
from turnwise.models.provider import ProviderModel
from turnwise.ports.model import ModelPiece, ModelReply


async def test_what_may_pass_is_unavailable(service: Service, model: ProviderModel, stream: bool) -> None:
    statuses = (408, 409, 429, 500, 502, 503, 504, 529)
    service.say(*(Fault(status, retry_after="7") for status in statuses))
    for status in statuses:
        error = await failure(model, stream=stream)
        assert isinstance(error, ModelUnavailable)
        assert str(status) in str(error)
        assert error.retry_after == 7.0
    assert len(service.requests) == len(statuses)  # nothing below tries again


async def test_a_wait_that_is_not_told_is_not_made_up(service: Service, model: ProviderModel) -> None:
    service.say(Fault(429), Fault(429, retry_after="soon"))
    for _ in range(2):
        error = await failure(model)
        assert isinstance(error, ModelUnavailable)
        assert error.retry_after is None


REFUSALS = {
    Fault(400, message="Hello is no good word"): "provider's own words",
    Fault(403): "what it may use",
    Fault(404): "model's name",
    Fault(413): "too large",
    Fault(422): "provider's own words",
    Fault(402): "nothing left to spend",
}


async def test_what_will_not_pass_is_refused(service: Service, model: ProviderModel, stream: bool) -> None:
    service.say(*REFUSALS)
    for fault, words in REFUSALS.items():
        error = await failure(model, stream=stream)
        assert isinstance(error, ModelRefused)
        assert words in error.fix
        assert fault.message not in str(error)  # it may repeat the conversation
    assert len(service.requests) == len(REFUSALS)


async def test_a_wrong_key_is_named_by_its_place_alone(service: Service, model: ProviderModel, stream: bool) -> None:
    service.key = "another"
    error = await failure(model, stream=stream)
    assert isinstance(error, ModelRefused)
    assert ("of the endpoint" if isinstance(service, FakeOpenAI) else "ANTHROPIC_API_KEY") in error.fix
    assert KEY in service.refused[0]
    assert KEY not in "".join(traceback.format_exception(error))


@pytest.mark.parametrize("cut", ["broken", "ended", Fault(529)])
async def test_a_stream_that_is_cut_is_unavailable(service: Service, model: ProviderModel, cut: Any) -> None:
    service.say(Answer("A long, long story.", cut_after=4, cut=cut))
    pieces: list[ModelPiece | ModelReply] = []

    async def listen() -> None:
        async for piece in model.answer(HELLO, stream=True):
            pieces.append(piece)

    with pytest.raises(ModelUnavailable):
        await listen()
    assert pieces
    assert all(isinstance(piece, ModelPiece) for piece in pieces)


@pytest.mark.parametrize("answer", [Answer(""), Answer("", thinking="Hm."), Answer("Half", finish="filtered"), Garbage("{}")])
async def test_what_is_no_answer_is_invalid(
    service: Service, model: ProviderModel, stream: bool, answer: Answer | Garbage
) -> None:
    service.say(answer)
    assert isinstance(await failure(model, stream=stream), ModelAnswerInvalid)


async def test_a_limit_is_told(service: Service, model: ProviderModel, stream: bool) -> None:
    service.say(Answer("Once upon", finish="length"), Answer("", thinking="Long thoughts", finish="length"))
    assert (await reply(model, stream=stream)).finish == "length"
    assert "max_tokens" in (await failure(model, stream=stream)).fix


async def test_nobody_there_is_unavailable(service: Service, model: ProviderModel) -> None:
    service.__exit__()
    assert isinstance(await failure(model), ModelUnavailable)
    service.__enter__()


async def test_a_service_that_takes_too_long_is_unavailable(service: Service, model: ProviderModel, stream: bool) -> None:
    never = threading.Event()
    service.say(Answer("At last.", wait=never))
    error = await failure(model, HELLO._replace(settings={"timeout": 0.2}), stream=stream)
    assert isinstance(error, ModelUnavailable)
    assert service.dropped.wait(10)
