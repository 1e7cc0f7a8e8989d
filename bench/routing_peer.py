"""semantic-router 1.1.1 on the same vectors, if it is installed: `pip install semantic-router==1.1.1`."""

import importlib.util
from collections.abc import Sequence
from typing import Any

from turnwise.facts.tree import AgentTree
from turnwise.learning.cases import Case

_AT_ONCE = 256
_BAR = 0.5


def installed() -> bool:
    return importlib.util.find_spec("semantic_router") is not None


class Peer:
    """Its indexed router: each agent's examples are a route's utterances; everything else has its default."""

    def __init__(self, tree: AgentTree) -> None:
        from semantic_router import IndexedRouter, Route

        routes = [Route(name=card.name, utterances=list(card.examples)) for card in tree if card.examples]
        self._router = IndexedRouter(encoder=_encoder(), routes=routes)

    def in_scope(self, cases: Sequence[Case]) -> float:
        """Percentage of in-scope messages that it routes to the right agent, without any threshold."""
        known = [case.turns[0] for case in cases if case.turns[0].agent is not None]
        return 100 * float(self._router.evaluate([turn.user for turn in known], [turn.agent for turn in known]))

    def of_all(self, cases: Sequence[Case], validation: Sequence[Case]) -> float:
        """Percentage of all messages that it decides correctly after its own fit on validation messages, when it must be half
        sure.
        """
        seen, judged = ([case.turns[0] for case in those] for those in (validation, cases))
        self._router.fit([turn.user for turn in seen], [turn.agent for turn in seen])
        self._router.confidence_threshold = _BAR
        return 100 * float(self._router.evaluate([turn.user for turn in judged], [turn.agent for turn in judged]))


def _encoder() -> Any:
    """Wraps our encoder as one of theirs."""
    from semantic_router.encoders import DenseEncoder

    from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
    from turnwise.matching.normalize import normalize

    ours = OnnxEncoder()

    class Shared(DenseEncoder):  # type: ignore[misc, unused-ignore]
        name: str = "turnwise"

        def __call__(self, docs: list[Any]) -> list[list[float]]:
            plain = [normalize(str(text)) for text in docs]
            parts = (ours.encode(plain[start : start + _AT_ONCE]) for start in range(0, len(plain), _AT_ONCE))
            return [row.tolist() for part in parts for row in part]

    return Shared()
