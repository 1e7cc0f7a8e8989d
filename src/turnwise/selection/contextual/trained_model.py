"""The trained contextual model: maps features to the probability of each candidate."""

import json
import math
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnwise.selection.contextual.belief import CUES, TrackingWeights
from turnwise.selection.contextual.features import CLAIMS, CONVERSATION_FEATURES, TURN_FEATURES, Features

Floats = NDArray[np.float64]

_FILE = "contextual.json"
NOTED_WEIGHT = 2.5
"""The log-odds for an agent that noted a thing which the message names: 12 to 1, or twice that where nothing else tells."""


class Coefficients(NamedTuple):
    """Weights of a conditional logit model. The weights of the claims vary with the conversation."""

    claims: NDArray[Any]
    """One weight for each feature of an agent."""
    stay: NDArray[Any]
    """Weights of the turn and conversation features for the active agent."""
    nobody: NDArray[Any]
    """Weights of the same features for out of scope, during a conversation."""
    smalltalk: NDArray[Any]
    """Weights of the turn features for small talk, without a conversation."""
    mixing: NDArray[Any]
    """Projects turn and conversation features to a few mixtures."""
    gates: NDArray[Any]
    """How each mixture changes the weights of the claims, of staying, and of out of scope."""


class Adaptation(NamedTuple):
    """The numbers that an app adds to the log-odds of agents during a conversation. All 0 is the model as it is shipped.

    It changes which agent is chosen, and not whether the message is out of scope.
    """

    stay: float = 0.0
    """For the active agent."""
    back: float = 0.0
    """For agents that spoke before. An agent that is neither active nor spoke before gets neither of both."""
    message: float = 0.0
    """By how much more the message alone counts: times the logarithm of its probability of each agent."""
    conversation: float = 0.0
    """The same for all recent messages together."""


AS_SHIPPED = Adaptation()
_ADAPTED = [CLAIMS.index(name) for name in ("visited", "message", "belief")]
"""The features that an adaptation weighs, beside the active agent."""


class Scores(NamedTuple):
    """The model's output for one turn."""

    agents: Floats
    """Probability of each candidate, given that the message is in scope. With the non-candidates the sum is 1."""
    nobody: float
    """Probability that the message is out of scope."""
    smalltalk: float
    """Probability of small talk; 0 while an agent has the conversation."""


class Model:
    """The contextual model. Immutable and safe to share.

    Args:
        coefficients: The weights.
        tracking: The weights of the belief filter, for building situations.
        temperature: Calibrates the confidences; fitted on held-out turns.
        adaptation: The app's adaptation.
    """

    def __init__(
        self,
        coefficients: Coefficients,
        tracking: TrackingWeights,
        temperature: float = 1.0,
        adaptation: Adaptation = AS_SHIPPED,
    ) -> None:
        self.coefficients = Coefficients(*(np.asarray(each, np.float64) for each in coefficients))
        self.tracking, self.temperature, self.adaptation = tracking, temperature, adaptation

    def adapted(self, adaptation: Adaptation) -> "Model":
        """Returns the model with this adaptation."""
        if adaptation == self.adaptation:
            return self
        return Model(self.coefficients, self.tracking, self.temperature, adaptation)

    def scores(self, features: Features) -> Scores:
        """Returns the scores of a turn.

        Without a conversation or other evidence, the agents' order is that of the message's probabilities.
        """
        return self._opening(features) if features.active is None else self._during_conversation(features, features.active)

    def _opening(self, features: Features) -> Scores:
        utilities = features.claims @ self.coefficients.claims + _from_memory(features)
        highest = max(float(utilities.max(initial=-np.inf)), 0.0)
        shares = np.exp(utilities - highest)
        smalltalk = 1.0 / (1.0 + math.exp(-min(max(float(features.turn @ self.coefficients.smalltalk), -40.0), 40.0)))
        return Scores(shares / (shares.sum() + features.rest * math.exp(-highest)), features.novelty, smalltalk)

    def _during_conversation(self, features: Features, active: int) -> Scores:
        """Returns the scores when an agent has the conversation: staying and moving compete."""
        weights, context = self.coefficients, np.concatenate([features.turn, features.conversation])
        gates = np.tanh(context @ weights.mixing) @ weights.gates
        utilities = features.claims @ (weights.claims + gates[:-2]) + _from_memory(features)
        utilities[active] += context @ weights.stay + gates[-2]
        nobody = float(context @ weights.nobody + gates[-1])
        shares, total, highest = self._shares(utilities, features)
        out_of_scope = math.exp(min((nobody - highest) / self.temperature, 40.0))
        if self.adaptation != AS_SHIPPED:
            adapted, adapted_total, _ = self._shares(utilities + self.temperature * self._added(features, active), features)
            return Scores(adapted / adapted_total, out_of_scope / (out_of_scope + total), 0.0)
        return Scores(shares / total, out_of_scope / (out_of_scope + total), 0.0)

    def _added(self, features: Features, active: int) -> Floats:
        """Returns what the adaptation adds to the log-odds of each candidate."""
        stay, *others = self.adaptation
        added: Floats = features.claims[:, _ADAPTED] @ np.array(others)
        added[active] += stay
        return added

    def _shares(self, utilities: Floats, features: Features) -> tuple[Floats, float, float]:
        """Returns the shares of the candidates, their sum, and the highest utility."""
        for row, better, lead in features.dominated:
            utilities[row] = min(utilities[row], utilities[better] - lead)
        highest = float(utilities.max())
        shares = np.exp((utilities - highest) / self.temperature)
        return shares, float(shares.sum()), highest


def _from_memory(features: Features) -> Floats | float:
    """Returns what the user's memory adds to each candidate's log-odds. It is a constant, not a trained weight."""
    return 0.0 if features.noted is None else NOTED_WEIGHT * features.noted


def dump(model: Model, note: str) -> str:
    """Serializes the model as JSON text: rounded weights by feature name."""
    context = (*TURN_FEATURES, *CONVERSATION_FEATURES)
    coefficients, tracking = model.coefficients._asdict(), model.tracking
    data: dict[str, Any] = {"note": note, "temperature": round(model.temperature, 4)}
    data["tracking"] = {name: _short(getattr(tracking, name)) for name in ("first", "message", "joined")}
    data["begins"] = {name: _short(tracking.begins[name]) for name in CUES}
    for field, names in (("claims", CLAIMS), ("stay", context), ("nobody", context), ("smalltalk", TURN_FEATURES)):
        data[field] = {name: _short(value) for name, value in zip(names, coefficients[field], strict=True)}
    data["mixing"] = {name: [_short(value) for value in row] for name, row in zip(context, coefficients["mixing"], strict=True)}
    gated = (*CLAIMS, "stay", "nobody")
    data["gates"] = {name: [_short(value) for value in row] for name, row in zip(gated, coefficients["gates"].T, strict=True)}
    lines = []
    for key, value in data.items():
        if isinstance(value, dict):
            inside = ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in value.items())
            lines.append(f" {json.dumps(key)}: {{\n{inside}\n }}")
        else:
            lines.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def parse(text: str) -> Model:
    """Parses a model from JSON text. Raises KeyError when the features' names differ."""
    data: Mapping[str, Any] = json.loads(text)
    context = (*TURN_FEATURES, *CONVERSATION_FEATURES)
    gated = (*CLAIMS, "stay", "nobody")
    return Model(
        Coefficients(
            claims=np.array([data["claims"][name] for name in CLAIMS]),
            stay=np.array([data["stay"][name] for name in context]),
            nobody=np.array([data["nobody"][name] for name in context]),
            smalltalk=np.array([data["smalltalk"][name] for name in TURN_FEATURES]),
            mixing=np.array([data["mixing"][name] for name in context]),
            gates=np.array([data["gates"][name] for name in gated]).T,
        ),
        TrackingWeights(**data["tracking"], begins={name: data["begins"][name] for name in CUES}),
        float(data["temperature"]),
    )


@cache
def load_shipped() -> Model:
    """Loads the model that is part of this package."""
    return parse(files("turnwise.selection.contextual").joinpath(_FILE).read_text("utf-8"))


def _short(value: float) -> float:
    return float(f"{float(value):.4g}")
