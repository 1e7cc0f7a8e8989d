"""Asking the next model when one does not answer."""

from collections.abc import AsyncIterator, Sequence

from turnwise.facts.errors import ModelError, ModelRefused, ModelUnavailable
from turnwise.models.reading import reading
from turnwise.ports.model import Model, ModelPiece, ModelReply, ModelRequest


class FallbackModel:
    """The answer of the first of `models` that gives one; the next is asked when one is unavailable or refuses.

    After a piece was given out no other is asked, since whoever reads must not see two answers in one: then the error is
    ModelUnavailable, and the whole call may be made again. When none answers, the error names what each said; it is
    ModelUnavailable if that of any was.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self._models = tuple(models)

    def __repr__(self) -> str:
        return f"FallbackModel({list(self._models)!r})"

    @property
    def name(self) -> str:
        """The names of all, in order; `usage.model` of a reply says who answered."""
        return ", ".join(model.name for model in self._models)

    async def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelPiece | ModelReply]:
        failures: list[ModelUnavailable | ModelRefused] = []
        for model in self._models:
            begun = False
            try:
                async with reading(model, request, stream=stream) as answer:
                    async for piece in answer:
                        begun = True
                        yield piece
                return
            except (ModelUnavailable, ModelRefused) as error:
                if begun:
                    raise _broken_off(error) from error
                failures.append(error)
        raise _nobody(failures) from failures[-1]


def _broken_off(error: ModelError) -> ModelUnavailable:
    if isinstance(error, ModelUnavailable):
        return error
    return ModelUnavailable(error.problem, fix=error.fix)


def _nobody(failures: Sequence[ModelUnavailable | ModelRefused]) -> ModelError:
    problem = "No model answered. " + " ".join(error.problem for error in failures)
    fix = " ".join(dict.fromkeys(error.fix for error in failures if error.fix))
    passing = [error for error in failures if isinstance(error, ModelUnavailable)]
    if not passing:
        return ModelRefused(problem, fix=fix)
    waits = [error.retry_after for error in passing if error.retry_after is not None]
    return ModelUnavailable(problem, fix=fix, retry_after=min(waits, default=None))
