"""What a model adds on near ties: accuracy against the share of messages that it is asked about.

    python -m bench.model_ties --data DIR [--dialogues N]

The model is an oracle of a stated accuracy: it names the right agent in that share of its answers, and another one that it was
offered in the rest. DIR holds `sgd`, as for the routing benchmarks; the dialogues are made with digressions.
"""

import argparse
import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

from bench.splice import splice

from turnwise.facts.content import Content, ToolCallPart
from turnwise.facts.tree import AgentTree
from turnwise.facts.usage import Usage
from turnwise.learning.cases import Case, read_cases, read_examples
from turnwise.learning.evaluate import evaluate
from turnwise.learning.measures import Outcome
from turnwise.matching.disk_cache import folder_from_environment
from turnwise.ports.model import ModelReply, ModelRequest
from turnwise.selection.cascade import Cascade
from turnwise.selection.model import ModelSelector
from turnwise.selection.named import named_policy
from turnwise.selection.policy import PolicySpec, StageSpec
from turnwise.selection.stages import meaning_of

ACCURACIES = (0.8, 0.9, 0.95)
MARGINS = (0.05, 0.15, 0.3, 0.6)
_TOKENS_PER_CHARACTER = 0.25


class Oracle:
    """A model that knows the right agents, in the order of the decisions, and gives wrong answers in a share of them."""

    name = "oracle"

    def __init__(self, right: Sequence[str | None], accuracy: float) -> None:
        self._right, self._accuracy, self.place = right, accuracy, 0
        self.asked, self.characters = 0, 0

    def next(self) -> None:
        self.place += 1

    async def answer(self, request: ModelRequest, *, stream: bool) -> AsyncIterator[ModelReply]:
        self.asked += 1
        self.characters += len(request.instructions) + sum(len(each.text) for each in request.messages)
        properties = request.tools[0].parameters["properties"]
        assert isinstance(properties, dict)
        offered: list[str] = properties["agent"]["enum"]  # type: ignore[index, assignment, call-overload]
        right, chance = self._right[self.place], random.Random(self.place)
        wrong = [each for each in offered if each != right]
        is_right = right in offered and chance.random() < self._accuracy
        agent = right if is_right or not wrong else chance.choice(wrong)
        call = ToolCallPart(call_id="1", tool="choose_agent", arguments={"agent": agent, "reason": "It knows."})
        yield ModelReply(Content(parts=(call,)), Usage(model=self.name))


def _policy(margin: float) -> PolicySpec:
    """The policy `default-with-model`, with the oracle in place of a language model."""
    spec = named_policy("default-with-model").with_options({"contextual": {"margin": margin}})
    stages = [StageSpec(selector="oracle") if stage.selector == "model" else stage for stage in spec.stages]
    return spec.replace(stages=tuple(stages))


def _selector(oracle: Oracle, margin: float, _tree: AgentTree) -> ModelSelector:
    return ModelSelector(oracle, margin=margin, kept=0, stage="contextual", name="oracle")


async def measured(tree: AgentTree, cases: Sequence[Case]) -> AsyncIterator[str]:
    """Yields one line for each margin and accuracy."""
    meaning = meaning_of(tree, keep=folder_from_environment())
    plain = Cascade(named_policy("default"), tree, meaning=meaning)
    await plain.prepare()
    turns = [turn for case in cases for turn in case.turns]
    outcomes = await evaluate(plain, cases)
    yield f"{'margin':>8} {'oracle':>8} {'asked':>8} {'right':>8}   tokens a message"
    yield f"{'–':>8} {'–':>8} {0:>7.1f}% {_right(outcomes):>7.1f}%   0"
    for margin in MARGINS:
        for accuracy in ACCURACIES:
            oracle = Oracle([turn.agent for turn in turns], accuracy)
            with_model = Cascade(_policy(margin), tree, {"oracle": partial(_selector, oracle, margin)}, meaning=meaning)
            found = _right(await evaluate(with_model, cases, step=oracle.next))
            share, tokens = 100 * oracle.asked / len(turns), oracle.characters * _TOKENS_PER_CHARACTER / len(turns)
            yield f"{margin:>8.2f} {100 * accuracy:>7.0f}% {share:>7.1f}% {found:>7.1f}%   {tokens:.0f}"


def _right(outcomes: Sequence[Outcome]) -> float:
    scored = [each for each in outcomes if each.scored]
    return 100 * sum(each.chosen == each.expected for each in scored) / len(scored)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder with the data sets")
    parser.add_argument("--dialogues", type=int, default=300, help="how many dialogues are made")
    options = parser.parse_args()
    tree = read_examples(options.data / "sgd" / "examples_5.jsonl")
    cases = splice(read_cases([options.data / "sgd" / "dev.jsonl"]), options.dialogues)
    async for line in measured(tree, cases):
        print(line, flush=True)


if __name__ == "__main__":
    asyncio.run(main())
