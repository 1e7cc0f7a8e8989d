"""What words mean: products and frequent questions are compared with a message by vectors, not by spelling."""

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from helpdesk import reading
from turnwise.models import OnnxEncoder

FITS = 0.55
"""The lowest score of a product that is offered. Things that the shop does not have stay below it."""
NEAR = 0.12
"""A product this much worse than the best one is not offered."""
SAME = 0.55
"""The lowest cosine at which two questions count as the same."""
NAMED = 0.1
"""What a product gains when its kind is named: "kettle", "headphones"."""
IN_NAME = 0.1
"""What a product gains when all that is said is in its name: "glass kettle"."""
USE_ALONE = 0.1
"""What a product's use loses when its kind does not support it."""

Vectors = npt.NDArray[np.float32]


class Offered(NamedTuple):
    """What is known of a product to find it by."""

    name: str
    kind: str
    uses: str
    description: str


def fitting(words: list[str], products: tuple[Offered, ...]) -> list[int]:
    """Returns the places of the products that fit the words, best first."""
    if not words:
        return []
    said = _encoder().encode([" ".join(words)])[0]
    kinds, uses, texts = (vectors @ said for vectors in _vectors(products))
    scores = np.maximum((kinds + np.maximum(uses, texts)) / 2, uses - USE_ALONE)
    scores = scores + [_named(words, product) for product in products]
    lowest = max(FITS, float(scores.max()) - NEAR)
    return [int(place) for place in np.argsort(-scores, kind="stable") if scores[place] >= lowest]


def same_question(question: str, questions: tuple[str, ...]) -> int | None:
    """Returns the place of the question that means the same; None when none does."""
    scores = _texts(questions) @ _encoder().encode([question])[0]
    best = int(scores.argmax())
    return best if scores[best] >= SAME else None


def _named(words: list[str], product: Offered) -> float:
    return NAMED * _share(product.kind.split(), words) + IN_NAME * _share(words, reading.words(product.name))


def _share(wanted: list[str], among: list[str]) -> float:
    """Returns the share of the words that are among the others."""
    stems = reading.stems(wanted)
    return len(stems & reading.stems(among)) / len(stems)


@cache
def _encoder() -> OnnxEncoder:
    return OnnxEncoder()


@cache
def _vectors(products: tuple[Offered, ...]) -> tuple[Vectors, Vectors, Vectors]:
    """Returns the vectors of the kinds, the uses and the texts. The catalogue is encoded once a process."""
    kinds = _texts(tuple(product.kind for product in products))
    uses = _texts(tuple(product.uses for product in products))
    return kinds, uses, _texts(tuple(f"{product.name}: {product.description}" for product in products))


@cache
def _texts(texts: tuple[str, ...]) -> Vectors:
    return _encoder().encode(list(texts))
