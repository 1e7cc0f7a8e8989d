"""Several models for one: who is asked, and what is said when nobody answers."""

import pytest

from turnwise.facts.content import text_content
from turnwise.facts.errors import ModelAnswerInvalid, ModelError, ModelRefused, ModelUnavailable
from turnwise.models.by_name import FallbackModel
from turnwise.ports.model import ModelPiece, ModelReply, ModelRequest
from turnwise.testing.models import ScriptedModel

REQUEST = ModelRequest(messages=(text_content("Hello", "user"),))


async def read(model: FallbackModel, *, stream: bool = False) -> list[ModelPiece | ModelReply]:
    return [piece async for piece in model.answer(REQUEST, stream=stream)]


async def failed(model: FallbackModel) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await read(model)
    return caught.value


@pytest.mark.parametrize("error", [ModelUnavailable("Away."), ModelRefused("No key.")])
async def test_the_next_answers(error: ModelError) -> None:
    first, second, third = ScriptedModel(error), ScriptedModel("Second.", name="second:model"), ScriptedModel("Third.")
    [reply] = await read(FallbackModel([first, second, third]))
    assert isinstance(reply, ModelReply)
    assert (reply.content.text, reply.usage.model, third.left) == ("Second.", "second:model", 1)
    assert first.requests == second.requests == [REQUEST]


async def test_an_answer_that_is_none_is_not_asked_of_the_next() -> None:
    """The loop tells the model what was wrong; that is no matter of who is asked."""
    second = ScriptedModel("Second.")
    assert isinstance(await failed(FallbackModel([ScriptedModel(ModelAnswerInvalid("Nothing.")), second])), ModelAnswerInvalid)
    assert second.left == 1


@pytest.mark.parametrize("error", [ModelUnavailable("Away.", retry_after=3.0), ModelRefused("No.")])
async def test_after_a_piece_no_other_is_asked(error: ModelError) -> None:
    """Whoever reads the pieces must not see two answers in one: the whole call may be made again."""
    second = ScriptedModel("Second.")
    pieces: list[ModelPiece | ModelReply] = []

    async def listen() -> None:
        async for piece in FallbackModel([ScriptedModel(["One story", error]), second]).answer(REQUEST, stream=True):
            pieces.append(piece)

    with pytest.raises(ModelUnavailable) as caught:
        await listen()
    assert [piece.text for piece in pieces if isinstance(piece, ModelPiece)] == ["One stor", "y"]
    assert caught.value.problem == error.problem
    assert second.left == 1


async def test_nobody_answers() -> None:
    models = [
        ScriptedModel(ModelRefused("A has no key.", fix="Set A_KEY.")),
        ScriptedModel(ModelUnavailable("B is away.", fix="Wait.", retry_after=9.0)),
        ScriptedModel(ModelUnavailable("C is away.", fix="Wait.", retry_after=4.0)),
    ]
    error = await failed(FallbackModel(models))
    assert isinstance(error, ModelUnavailable)
    assert str(error) == "No model answered. A has no key. B is away. C is away. Set A_KEY. Wait."
    assert error.retry_after == 4.0


async def test_all_refuse() -> None:
    error = await failed(FallbackModel([ScriptedModel(ModelRefused("No.")), ScriptedModel(ModelRefused("Nor I."))]))
    assert isinstance(error, ModelRefused)


def test_it_goes_by_all_names() -> None:
    assert FallbackModel([ScriptedModel(name="a:b"), ScriptedModel(name="c:d")]).name == "a:b, c:d"
