"""Asking again: how often, after how long, and when not."""

import random
from collections.abc import AsyncIterator

import pytest

from turnwise.facts.content import text_content
from turnwise.facts.errors import ModelAnswerInvalid, ModelRefused, ModelUnavailable
from turnwise.models.by_name import RetryingModel
from turnwise.ports.model import Model, ModelPiece, ModelReply, ModelRequest
from turnwise.testing.models import ScriptedModel

REQUEST = ModelRequest(messages=(text_content("Hello", "user"),))
AWAY = ModelUnavailable("It is away.")


class Sleep:
    def __init__(self) -> None:
        self.slept: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.slept.append(seconds)


def retrying(model: Model, sleep: Sleep, *, attempts: int = 4) -> RetryingModel:
    return RetryingModel(model, attempts=attempts, first=1.0, longest=3.0, patience=30.0, source=random.Random(7), sleep=sleep)


async def text(model: Model, *, stream: bool = False) -> str:
    async for piece in model.answer(REQUEST, stream=stream):
        if isinstance(piece, ModelReply):
            return piece.content.text
    raise AssertionError("There was no reply.")


async def test_it_asks_again_while_the_model_is_away() -> None:
    sleep, model = Sleep(), ScriptedModel(AWAY, AWAY, AWAY, "Here.")
    assert await text(retrying(model, sleep)) == "Here."
    assert [pause <= most for pause, most in zip(sleep.slept, (1.0, 2.0, 3.0), strict=True)] == [True] * 3
    assert len(set(sleep.slept)) == 3


async def test_it_gives_up() -> None:
    sleep, model = Sleep(), ScriptedModel(AWAY, AWAY, "Too late.")
    with pytest.raises(ModelUnavailable):
        await text(retrying(model, sleep, attempts=2))
    assert (len(sleep.slept), model.left) == (1, 1)


async def test_chance_comes_from_the_source_alone() -> None:
    slept = []
    for _ in range(2):
        sleep = Sleep()
        await text(retrying(ScriptedModel(AWAY, AWAY, "Here."), sleep))
        slept.append(sleep.slept)
    assert slept[0] == slept[1]


async def test_it_waits_as_long_as_it_is_asked_to() -> None:
    sleep = Sleep()
    model = ScriptedModel(ModelUnavailable("Slower.", retry_after=12.0), "Here.")
    assert await text(retrying(model, sleep)) == "Here."
    assert 12.0 <= sleep.slept[0] <= 13.0


async def test_it_does_not_wait_longer_than_it_has_patience() -> None:
    sleep = Sleep()
    with pytest.raises(ModelUnavailable) as caught:
        await text(retrying(ScriptedModel(ModelUnavailable("Slower.", retry_after=31.0), "Here."), sleep))
    assert (sleep.slept, caught.value.retry_after) == ([], 31.0)


@pytest.mark.parametrize("error", [ModelRefused("No."), ModelAnswerInvalid("Nothing.")])
async def test_what_will_not_pass_is_not_tried_again(error: Exception) -> None:
    sleep, model = Sleep(), ScriptedModel(error, "Never.")
    with pytest.raises(type(error)):
        await text(retrying(model, sleep))
    assert (sleep.slept, model.left) == ([], 1)


async def test_after_a_piece_nothing_is_tried_again() -> None:
    """Whoever reads the pieces must not see two answers in one."""
    sleep, model = Sleep(), ScriptedModel(["One story", AWAY], "Another.")
    pieces: list[ModelPiece | ModelReply] = []

    async def listen() -> None:
        async for piece in retrying(model, sleep).answer(REQUEST, stream=True):
            pieces.append(piece)

    with pytest.raises(ModelUnavailable):
        await listen()
    assert [piece.text for piece in pieces if isinstance(piece, ModelPiece)] == ["One stor", "y"]
    assert (sleep.slept, model.left) == ([], 1)


async def test_who_stops_reading_ends_the_call() -> None:
    ended = []

    class Endless:
        name = "endless:model"

        async def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
            try:
                while True:
                    yield ModelPiece("text", "on and ")
            finally:
                ended.append(True)

    answer = retrying(Endless(), Sleep()).answer(REQUEST, stream=True)
    await anext(answer)
    await answer.aclose()  # type: ignore[attr-defined]
    assert ended == [True]


def test_it_goes_by_the_name_of_its_model() -> None:
    assert RetryingModel(ScriptedModel(name="a:b")).name == "a:b"
