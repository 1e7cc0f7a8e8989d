"""Plays drills in separate processes, one for each encoder."""

import asyncio
import multiprocessing
import random
import sys
from collections.abc import Mapping, Sequence
from itertools import groupby
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import encoder_folder
from contextual_belief import Track, track
from contextual_companies import Drill
from contextual_dialogues import NOBODY, SMALLTALK
from contextual_fit import NOBODY as NO_ROW, SMALLTALK as SMALLTALK_ROW, Case
from contextual_rollout import EVASIONS, Ears, Played, cases, evidence_texts, play, right_matters

from turnwise.facts.cards import AgentCard
from turnwise.facts.tree import AgentTree
from turnwise.matching.encoder.caching import CachingEncoder
from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.matching.sentences import segments
from turnwise.selection.contextual import NOBODY as NOBODY_BAR
from turnwise.selection.contextual.belief import TrackingWeights
from turnwise.selection.contextual.features import Features
from turnwise.selection.contextual.situation import Situation, is_empty, joined_text
from turnwise.selection.contextual.trained_model import Model
from turnwise.selection.contextual.wording import AgentNames
from turnwise.selection.meaning import Meaning, TextReading
from turnwise.selection.reader import with_parts

TRACKED = 150
"""How many dialogues of a drill are used to fit the belief."""
CAPACITY = 400_000
"""How many texts' vectors an encoder keeps."""
_ROOT = "nobody else"


class PreparedDrill(NamedTuple):
    drill: Drill
    ears: Ears


class Chooser:
    """Decides as the selector does."""

    def __init__(self, model: Model, nobody: float = NOBODY_BAR) -> None:
        self.model, self._nobody = model, nobody

    def row(self, found: Features) -> int:
        scores = self.model.scores(found)
        if scores.smalltalk > 0.5:
            return SMALLTALK_ROW
        return NO_ROW if scores.nobody > self._nobody else int(scores.agents.argmax())

    def __call__(self, situation: Situation, found: Features) -> str:
        row = NO_ROW if is_empty(situation) and self.row(found) != SMALLTALK_ROW else self.row(found)
        return {NO_ROW: NOBODY, SMALLTALK_ROW: SMALLTALK}.get(row) or situation.candidates[row]


def packaged_encoder() -> CachingEncoder:
    """Returns the packaged encoder, which keeps its vectors."""
    return CachingEncoder(OnnxEncoder(), capacity=CAPACITY)


def prepare_drill(drill: Drill, encoder: CachingEncoder) -> PreparedDrill:
    """The drill with a matcher fitted to its agents, and with all texts encoded."""
    cards = [
        AgentCard(name=name, parent=_ROOT, examples=tuple(texts), description=drill.descriptions.get(name, ""))
        for name, texts in drill.examples.items()
    ]
    meaning = Meaning(AgentTree([AgentCard(name=_ROOT), *cards]), encoder)
    steps = [step for talk in drill.dialogues for step in talk.steps]
    messages = list(dict.fromkeys(step.user for step in steps))
    texts = [text for step in steps for text in (step.system, joined_text(step.system, step.user)) if text]
    texts += [
        text for talk in drill.dialogues for step, matters in right_matters(talk) for text in evidence_texts(step.user, matters)
    ]
    texts += [*EVASIONS, *(text for lines in drill.lines.values() for text in lines[:40])]

    async def reading() -> tuple[dict[str, TextReading], dict[str, TextReading]]:
        await meaning.fitted()
        every = [*messages, *texts, *(part for message in messages for part in segments(message))]
        known = {found.text: found for found in await meaning.read(list(dict.fromkeys(every)), batched=True)}
        return known, {message: _with_parts(message, known) for message in messages}

    known, heard = asyncio.run(reading())
    labels = next(iter(known.values())).match.labels

    def read_by(text: str) -> TextReading:
        if text not in known:
            known[text] = asyncio.run(meaning.read([text]))[0]
        return known[text]

    lines = {name: lines[:40] for name, lines in drill.lines.items()}
    return PreparedDrill(drill._replace(lines=lines), Ears(labels, heard.__getitem__, read_by, AgentNames(labels), lines))


def _with_parts(message: str, known: Mapping[str, TextReading]) -> TextReading:
    """Like `Meaning.read_message`, for texts that are encoded already."""
    return with_parts(known[message], [known[part] for part in segments(message)])


def play_drill(
    ready: PreparedDrill, tracking: TrackingWeights, choose: Chooser | None, seed: int, *, harsh: bool = True
) -> list[Played]:
    """Plays all turns. harsh: wrongly chosen agents give their own replies in half of the turns."""
    found: list[Played] = []
    chance = random.Random(seed)
    for talk in ready.drill.dialogues:
        general = _ROOT if harsh and chance.random() < 0.5 else None
        found += play(talk, ready.ears, tracking, choose, chance=chance if harsh else None, general=general)
    return found


class PlaySettings(NamedTuple):
    """How all drills are played. model: None = the right agent has each turn. seed: a drill's number is added. harsh: the
    numbers of the drills in which wrongly chosen agents give their own replies. weight: of the drill's own.
    """

    title: str
    tracking: TrackingWeights
    model: Model | None
    seed: int
    harsh: frozenset[int]
    weight: float = 1.0


class DrillProcesses:
    """Reads and plays drills. Close it, or use it as a context manager.

    The results are in the order of the drills, whichever process is first.

    Args:
        drills: What to play.
        folder: Holds the encoders that drills name (`Drill.apart`); None = the packaged one reads everything.
    """

    def __init__(self, drills: Sequence[Drill], folder: Path | None) -> None:
        self.drills = drills
        by = sorted(range(len(drills)), key=lambda number: drills[number].apart if folder else "")
        context = multiprocessing.get_context("spawn")
        self._processes, self._pipes = [], list[Connection]()
        for apart, numbers in groupby(by, key=lambda number: drills[number].apart if folder else ""):
            here, there = context.Pipe()
            given = (there, [(number, drills[number]) for number in numbers], folder / apart if folder and apart else None)
            process = context.Process(target=_serve, args=given, daemon=True)
            process.start()
            there.close()  # else a child that dies would not be noticed
            self._processes.append(process)
            self._pipes.append(here)
        self._collect("reading")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._processes:
            process.terminate()

    def tracks(self) -> list[Track]:
        """The dialogues of all drills from which the belief is fitted."""
        return [each for drill in self._request("belief", None) for each in drill]

    def cases(self, game: PlaySettings) -> list[Case]:
        """Plays all drills, and returns the turns that count."""
        return [each for drill in self._request(game.title, game) for each in drill]

    def _request(self, title: str, what: PlaySettings | None) -> list[Any]:
        for pipe in self._pipes:
            pipe.send(what)
        return self._collect(title)

    def _collect(self, title: str) -> list[Any]:
        """Waits until each drill has an answer."""
        answers: dict[int, Any] = {}
        while len(answers) < len(self.drills):
            for pipe in wait(self._pipes):
                assert isinstance(pipe, Connection)
                number, answer = pipe.recv()
                answers[number] = answer
                progress(title, len(answers), len(self.drills))
        return [answers[number] for number in range(len(self.drills))]


def _serve(pipe: Connection, drills: Sequence[tuple[int, Drill]], folder: Path | None) -> None:
    """Answers for its drills, one after the other: first that they are read, then whatever is asked."""
    if folder is not None:
        encoder_folder.use(folder)
    encoder, ready = packaged_encoder(), dict[int, PreparedDrill]()
    for number, drill in drills:
        ready[number] = prepare_drill(drill, encoder)
        pipe.send((number, None))
    while True:
        game = pipe.recv()
        for number, each in ready.items():
            pipe.send((number, _tracks(each) if game is None else _cases(number, each, game)))


def _tracks(ready: PreparedDrill) -> list[Track]:
    return [found for talk in ready.drill.dialogues[:TRACKED] if (found := track(talk, ready.ears))]


def _cases(number: int, ready: PreparedDrill, game: PlaySettings) -> list[Case]:
    choose = Chooser(game.model) if game.model else None
    turns = play_drill(ready, game.tracking, choose, game.seed + number, harsh=number in game.harsh)
    return cases(turns, ready.drill.weight * game.weight)


def progress(what: str, done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\r{what}: {done} of {total}" + " " * 10, end=end, file=sys.stderr, flush=True)
