"""Small-talk classifier: greetings, thanks, chit-chat and questions about the bot, versus requests (behaviour C8)."""

import itertools
import json
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from turnwise.matching.text_features import TextFeatures, text_features

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MODEL_FILE = Path(__file__).parent / "data" / "smalltalk.json"
LISTS_FILE = Path(__file__).parent / "data" / "smalltalk_lists.json"

_FLAGS = (
    "question_mark", "question_word", "exclamation", "email", "phone", "url", "date", "time", "money", "order_code", "address",
    "opens_yes", "opens_no", "opens_ok", "opens_thanks", "opens_greeting", "thanks", "closing", "asks", "imperative", "also",
    "instead", "what_about", "actually", "never_mind", "somebody", "refers_back", "own", "you", "negates", "please",
    "code_like", "emoji",
)  # fmt: skip
_COUNTS = 10  # numbers beside the flags
_VECTOR_SCALE = 4.0  # brings a vector's small numbers to the features' size, so that the penalty affects both alike
_MAX_WORDS = 60
_READ_CHARACTERS = 2_000
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_PENALTY = 1.0
_STEPS = 200


class _Encoder(Protocol):
    """The part of `ports.encoder` used here; this layer may not import ports."""

    @property
    def fingerprint(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> "NDArray[np.float32]": ...


class SmallTalk:
    """Logistic regression over a text's vector, features and words. Immutable and safe to share between threads.

    Args:
        weights: One for each column of `features`.
        bias: The bias.
        words: Weight of each item of `wording`.
        other_scripts: Whether texts in non-Latin scripts can be small talk. False for encoders that cannot read them.
    """

    def __init__(
        self,
        weights: "NDArray[np.float64]",
        bias: float,
        words: Mapping[str, float] | None = None,
        *,
        other_scripts: bool = True,
    ) -> None:
        self._weights, self._bias, self._words, self._other_scripts = weights, bias, words or {}, other_scripts

    @classmethod
    def for_encoder(cls, encoder: _Encoder) -> "SmallTalk":
        """Returns the bundled classifier if it was trained with this encoder, else fits one.

        Fitting encodes about 600 short texts, in about a second with a local encoder. The fitted classifier is less accurate.
        It is fitted once per encoder object. Errors of the encoder propagate.
        """
        shipped = _shipped()
        if shipped["encoder"] == encoder.fingerprint.partition("@")[0]:
            import numpy as np

            return cls(np.array(shipped["weights"]), shipped["bias"], shipped["words"], other_scripts=False)
        with _FITTING:
            try:
                fitted = _FITTED.get(encoder)
            except TypeError:  # the encoder is not hashable
                return cls._fitted(encoder)
            if fitted is None:
                fitted = cls._fitted(encoder)
                with suppress(TypeError):  # weak references are not supported
                    _FITTED[encoder] = fitted
        return fitted

    @classmethod
    def _fitted(cls, encoder: _Encoder) -> "SmallTalk":
        texts, labels = _bundled_texts()
        return cls(*fit(features(encoder.encode(texts), texts), labels))

    def probabilities(self, vectors: "NDArray[np.float32]", texts: Sequence[str]) -> "NDArray[np.float64]":
        """Returns the probability, 0 to 1, that each whole text is small talk; 0 for a text without words or emoji.

        With the bundled classifier, a threshold of 0.5 misclassifies about 2 % of requests as small talk.
        """
        import numpy as np

        found = [text_features(text) for text in texts]
        scores = _feature_matrix(vectors, found).astype(np.float64) @ self._weights + self._bias
        if self._words:
            scores += [sum(self._words.get(each, 0.0) for each in wording(text)) for text in texts]
        probabilities: NDArray[np.float64] = 1.0 / (1.0 + np.exp(-np.clip(scores, -50.0, 50.0)))
        probabilities *= np.array([each.words > 0 or each.emoji for each in found])
        if not self._other_scripts:
            probabilities *= np.array([1.0 - each.other_script for each in found])
        return probabilities


def features(vectors: "NDArray[np.float32]", texts: Sequence[str]) -> "NDArray[np.float32]":
    """Returns one row for each text: its scaled vector and its features."""
    return _feature_matrix(vectors, [text_features(text) for text in texts])


def wording(text: str) -> list[str]:
    """Returns the distinct words and word pairs among the first 60 words. `^` and `$` mark the ends."""
    words = _WORD.findall(text[:_READ_CHARACTERS].lower().replace("’", "'"))[:_MAX_WORDS]
    bounded = ["^", *words, "$"]
    return list(dict.fromkeys(words + [f"{one} {next_}" for one, next_ in itertools.pairwise(bounded)]))


def fit(
    rows: "NDArray[np.float32]", labels: "NDArray[np.float32]", weights: "NDArray[np.float32] | None" = None
) -> "tuple[NDArray[np.float64], float]":
    """Fits weights and bias of the logistic regression (L2 penalty, not on the bias). Label 1 is small talk, 0 a request.

    `weights` are the rows' weights; None = both labels weigh the same in total, and a row weighs 1 on average.
    """
    import numpy as np

    from turnwise.matching.heads import minimize

    if weights is None:
        share = labels.mean()
        weights = np.where(labels > 0.0, 0.5 / share, 0.5 / (1.0 - share)).astype(np.float32)
    row_weights = weights
    signs = np.where(labels > 0.0, 1.0, -1.0).astype(np.float32)

    def objective(point: "NDArray[np.float32]") -> "tuple[float, NDArray[np.float32]]":
        margins = signs * (rows @ point[:-1] + point[-1])
        loss = float(row_weights @ np.logaddexp(0.0, -margins)) + 0.5 * _PENALTY * float(point[:-1] @ point[:-1])
        pull = -signs * row_weights / (1.0 + np.exp(np.clip(margins, -50.0, 50.0)))
        slope = np.append(pull @ rows, pull.sum())
        slope[:-1] += _PENALTY * point[:-1]
        return loss, slope.astype(np.float32)

    point = minimize(objective, np.zeros(rows.shape[1] + 1, np.float32), steps=_STEPS)
    return point[:-1].astype(np.float64), float(point[-1])


def _feature_matrix(vectors: "NDArray[np.float32]", found: Sequence[TextFeatures]) -> "NDArray[np.float32]":
    import numpy as np

    numbers = np.array([_feature_row(each) for each in found], dtype=np.float32).reshape(len(found), len(_FLAGS) + _COUNTS)
    return np.hstack([vectors * np.float32(_VECTOR_SCALE), numbers])


def _feature_row(found: TextFeatures) -> list[float]:
    """Returns the surface features as numbers for the classifier."""
    from math import log1p

    empty = found.content == 0
    extra = [
        log1p(min(found.words, _MAX_WORDS)),
        log1p(min(found.rest, _MAX_WORDS)),
        log1p(min(found.content, _MAX_WORDS)),
        min(found.numbers, 3),
        empty,
        empty and found.opens_greeting,
        empty and found.opens_thanks,
        (found.thanks or found.closing) and found.rest <= 4,
        found.own and not found.you,
        found.you and not found.own and found.content <= 2,
    ]
    return [float(getattr(found, name)) for name in _FLAGS] + [float(each) for each in extra]


# Keyed by object, not by fingerprint, so that calls to one encoder do not depend on earlier calls to another.
_FITTED: WeakKeyDictionary[_Encoder, SmallTalk] = WeakKeyDictionary()
_FITTING = threading.Lock()


@lru_cache(maxsize=1)
def _shipped() -> dict[str, Any]:
    shipped: dict[str, Any] = json.loads(MODEL_FILE.read_text(encoding="utf-8"))
    return shipped


def _bundled_texts() -> "tuple[list[str], NDArray[np.float32]]":
    """Returns the bundled texts, and 1 for each that is small talk."""
    import numpy as np

    lists = json.loads(LISTS_FILE.read_text(encoding="utf-8"))
    talk, requests = lists["smalltalk"], lists["requests"]
    return talk + requests, np.array([1.0] * len(talk) + [0.0] * len(requests), dtype=np.float32)
