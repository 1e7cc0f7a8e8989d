"""Trains the contextual model, writes selection/contextual/contextual.json, and prints its accuracy.

    python training/contextual.py --data DIR [--out FILE] [--held-out | --services-apart | --report]

DIR holds clinc150/, banking77/, smalltalk/ and sgd/ as line-delimited JSON. The conversations in training/talks are training
data too. The same data give the same file on the same machine, in minutes; other machines may round sums differently.

--held-out: trains without the last fifth of the real dialogues and without every third company of the talks, and reports on
them; writes nothing. --services-apart: the same, also without half of the services; reports on held-out dialogues with those.
--report: trains nothing; reports the packaged model's accuracy on sgd/dev.jsonl, which no training uses.
--first N --out FILE: sees only the first N dialogues of sgd/train.jsonl; the others can be traffic that the model never saw.
With --small it has a quarter of the other drills and one fit: minutes instead of an hour, for comparisons.
--encoders DIR: a folder with the exported encoders third-0, third-1, third-2 and without-clinc150 of training/encoder.py.
Each set of agents is then read by the encoder that was fitted without its texts, as agents in use are new to the encoder.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from contextual_belief import STEPS, fit_tracking, track
from contextual_companies import Drill, by_agent, elsewhere, lines_of, made_up, read, real_dialogues, services
from contextual_dialogues import NOBODY, SMALLTALK
from contextual_fit import NOBODY as NO_ROW, SMALLTALK as SMALLTALK_ROW, Case, Table, blended, fit
from contextual_rollout import EVASIONS, Ears, Played, cases, evidence_texts, play, right_matters
from contextual_splices import spliced
from contextual_talks import KNOWN_BY, companies, drill, drills

from turnwise.facts.cards import AgentCard
from turnwise.facts.tree import AgentTree
from turnwise.matching.encoder.caching import CachingEncoder
from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.matching.sentences import segments
from turnwise.selection.contextual import NOBODY as NOBODY_BAR, trained_model as model_module
from turnwise.selection.contextual.belief import TrackingWeights
from turnwise.selection.contextual.build_turn import joined_text
from turnwise.selection.contextual.features import Features
from turnwise.selection.contextual.situation import Situation, is_empty
from turnwise.selection.contextual.trained_model import Model, dump, load_shipped
from turnwise.selection.contextual.wording import AgentNames
from turnwise.selection.meaning import Meaning, TextReading
from turnwise.selection.reader import with_parts

OUT = Path(str(model_module.__file__)).with_name("contextual.json")
ROUNDS, HIDDEN, EPOCHS, FITS = 2, 24, 8, 6
SMALL = 4
"""By how much the numbers of drills are divided for a small training."""
OWN_WEIGHT = 0.5
"""Weight of a turn from the model's own history, relative to one from the right history."""
TALKS_WEIGHT = 1.0
TRACKED = 150
"""How many dialogues of a drill are used to fit the belief."""
DIGRESSIONS = 0.3
"""How many dialogues with digressions are added to a drill, for each dialogue that it has."""
_ROOT = "nobody else"
NOTE = (
    "Made by training/contextual.py from CLINC150 (CC BY 3.0), BANKING77 (CC BY 4.0), SGD (CC BY-SA 4.0)"
    " and Microsoft personality chat (MIT), and from the project's own conversations."
)


Row = Mapping[str, Any]
Examples = Mapping[str, Sequence[str]]


class Ready(NamedTuple):
    drill: Drill
    ears: Ears


class Encoders:
    """The packaged encoder, and for texts that it was fitted to, those that were fitted without them.

    Args:
        folder: Holds the other encoders, by `Drill.apart`; None = the packaged one reads everything.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.packaged, self._folder = CachingEncoder(OnnxEncoder(), capacity=400_000), folder
        self._others: dict[str, CachingEncoder] = {}

    def of(self, drill: Drill) -> CachingEncoder:
        if self._folder is None or not drill.apart:
            return self.packaged
        if drill.apart not in self._others:
            self._others[drill.apart] = CachingEncoder(OnnxEncoder(self._folder / drill.apart), capacity=400_000)
        return self._others[drill.apart]


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


def heard(drill: Drill, encoders: Encoders) -> Ready:
    """The drill with a matcher fitted to its agents, and with all texts encoded."""
    encoder = encoders.of(drill)
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
        return known, {message: _heard(message, known) for message in messages}

    known, heard = asyncio.run(reading())
    labels = next(iter(known.values())).match.labels

    def read_by(text: str) -> TextReading:
        if text not in known:
            known[text] = asyncio.run(meaning.read([text]))[0]
        return known[text]

    lines = {name: lines[:40] for name, lines in drill.lines.items()}
    return Ready(drill._replace(lines=lines), Ears(labels, heard.__getitem__, read_by, AgentNames(labels), lines))


def _heard(message: str, known: Mapping[str, TextReading]) -> TextReading:
    """Like `Meaning.hear`, for texts that are encoded already."""
    return with_parts(known[message], [known[part] for part in segments(message)])


def played(ready: Ready, tracking: TrackingWeights, choose: Chooser | None, seed: int, *, harsh: bool = True) -> list[Played]:
    """Plays all turns. harsh: wrongly chosen agents give their own replies in half of the turns."""
    found: list[Played] = []
    chance = random.Random(seed)
    for talk in ready.drill.dialogues:
        general = _ROOT if harsh and chance.random() < 0.5 else None
        found += play(talk, ready.ears, tracking, choose, chance=chance if harsh else None, general=general)
    return found


def accuracy(turns: Sequence[Played], choose: Chooser | None = None) -> float:
    """Percentage of right choices: of those made, or of those that `choose` makes at the same turns."""
    counted = [turn for turn in turns if turn.right is not None]
    right = [turn.choice == turn.right if choose is None else choose.row(turn.features) == turn.row for turn in counted]
    return 100.0 * float(np.mean(right)) if right else float("nan")


def tracked(drills: Sequence[Ready]) -> TrackingWeights:
    """Fits the belief's parameters to some dialogues of each drill."""
    tracks = [track(talk, ready.ears) for ready in drills for talk in ready.drill.dialogues[:TRACKED]]
    return fit_tracking([each for each in tracks if each], told=_believing)


def trained(drills: Sequence[Ready], fits: int = FITS) -> Model:
    """Trains the model on right histories and, in rounds, on its own. The last round's model is the mean of several fits."""
    tracking = tracked(drills)
    pool: list[Case] = []
    for number, ready in enumerate(drills):
        pool += cases(played(ready, tracking, None, number), ready.drill.weight)
        progress("right histories", number + 1, len(drills))
    coefficients = fit(Table(pool), hidden=HIDDEN, epochs=EPOCHS)
    for turn in range(ROUNDS):
        choose = Chooser(Model(coefficients, tracking))
        for number, ready in enumerate(drills):
            own = played(ready, tracking, choose, 1000 * turn + number, harsh=number % 2 == 0 or turn == 0)
            pool += cases(own, ready.drill.weight * OWN_WEIGHT)
            progress(f"own histories {turn + 1}", number + 1, len(drills))
        table, last = Table(pool), turn == ROUNDS - 1
        coefficients = blended([
            fit(table, hidden=HIDDEN, epochs=EPOCHS, seed=seed, told=partial(_told, len(table)))
            for seed in range(fits if last else 1)
        ])  # fmt: skip
    return Model(coefficients, tracking)


def _believing(step: int, loss: float) -> None:
    progress(f"fitting the belief, loss {loss:.4f}", step, STEPS)


def _told(turns: int, epoch: int, loss: float) -> None:
    progress(f"fitting {turns} turns, loss {loss:.4f}", epoch + 1, EPOCHS)


def temperature(raw: Model, drills: Sequence[Ready]) -> float:
    """The temperature that calibrates the confidences, over the model's own histories."""
    found = [
        (turn.features, turn.row)
        for number, ready in enumerate(drills)
        for turn in played(ready, raw.tracking, Chooser(raw), 9000 + number, harsh=False)
        if turn.row is not None and turn.row >= 0 and turn.features.active is not None
    ]
    losses = {}
    for tried in np.arange(0.7, 2.01, 0.1):
        model = Model(raw.coefficients, raw.tracking, float(tried))
        losses[float(tried)] = -float(np.mean([np.log(max(model.scores(each).agents[row], 1e-9)) for each, row in found[::4]]))
    return min(losses, key=lambda tried: losses[tried])


def progress(what: str, done: int, total: int) -> None:
    end = "\n" if done == total else ""
    print(f"\r{what}: {done} of {total}" + " " * 10, end=end, file=sys.stderr, flush=True)


def drills_of(
    data: Path, rows: Sequence[Row], talks: Sequence[str], agents: frozenset[str] | None = None, *, divided: int = 1
) -> list[Drill]:
    """All training data. talks: the companies to use. agents: the services to use. divided: makes fewer generated drills."""
    known, five = services_of(data)
    clinc, banking = by_agent(read(data / "clinc150/train.jsonl")), by_agent(read(data / "banking77/train.jsonl"))
    foreign = [row["text"] for row in read(data / "clinc150/valid.jsonl") if row["agent"] is None]
    smalltalk = [row["text"] for row in read(data / "smalltalk/train.jsonl")]
    domains = json.loads((data / "clinc150/domains.json").read_text("utf-8"))
    if agents is not None:
        known, five = ({name: texts for name, texts in each.items() if name in agents} for each in (known, five))
        rows = [row for row in rows if all(turn["agent"] in agents for turn in row["turns"])]
    lines = lines_of(rows)
    plain = [
        Drill("services, all examples", known, real_dialogues(rows[:1300]), lines),
        Drill("services, five examples", five, real_dialogues(rows[-1300:]), lines),
        *services(known, rows, smalltalk, foreign, 14 // divided),
        *elsewhere(rows, 8 // divided),
        *drills(talks, TALKS_WEIGHT),
    ]
    return [*(with_digressions(each) for each in plain), *made_up(clinc, domains, banking, smalltalk, foreign, 48 // divided)]


def with_digressions(drill: Drill) -> Drill:
    """The drill with some of its dialogues a second time, one inside another."""
    count = round(DIGRESSIONS * len(drill.dialogues))
    return drill._replace(dialogues=[*drill.dialogues, *spliced(drill.dialogues, count, random.Random(drill.name))])


def services_of(data: Path) -> tuple[Examples, Examples]:
    """The services with all examples, and with five each."""
    return by_agent(read(data / "sgd/examples.jsonl")), by_agent(read(data / "sgd/examples_5.jsonl"))


def report(model: Model, data: Path, rows: Sequence[Row], encoders: Encoders, title: str) -> None:
    """Prints the accuracy on these dialogues for services with all examples and with five."""
    for known, which in zip(services_of(data), ("all examples", "five examples"), strict=True):
        reported(model, [heard(Drill(which, known, real_dialogues(rows)), encoders)], f"{title}, {which}")


def reported(model: Model, ready: Sequence[Ready], title: str) -> None:
    """Prints the accuracy over all turns, with own and with right history."""
    choose = Chooser(model)
    own = [turn for each in ready for turn in played(each, model.tracking, choose, 0, harsh=False)]
    right = [turn for each in ready for turn in played(each, model.tracking, None, 0, harsh=False)]
    opening = [turn for turn in own if turn.opening]
    print(
        f"{title}: own history {accuracy(own):.2f}, right history {accuracy(right, choose):.2f},"
        f" of turns without a conversation {accuracy(opening):.1f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the contextual model.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--services-apart", action="store_true")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--first", type=int, metavar="N")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--encoders", type=Path, metavar="DIR")
    given = parser.parse_args()
    began = time.perf_counter()
    encoders = Encoders(given.encoders)
    if given.report:
        report(load_shipped(), given.data, read(given.data / "sgd/dev.jsonl"), encoders, "dev")
        return
    rows, talks = read(given.data / "sgd/train.jsonl"), companies()
    if given.first is not None:
        model = of_first(given.data, rows[: given.first], talks, encoders, small=given.small)
        given.out.write_text(dump(model, f"{NOTE} Only {given.first} dialogues of SGD."), "utf-8")
        print(f"{given.out}: {time.perf_counter() - began:.0f} s")
        return
    cut = len(rows) * 4 // 5
    if not (given.held_out or given.services_apart):
        ready = prepared(drills_of(given.data, rows, talks), encoders)
        raw = trained(ready)
        model = Model(raw.coefficients, raw.tracking, temperature(raw, ready))
        given.out.write_text(dump(model, NOTE), "utf-8")
        print(f"{given.out}: {given.out.stat().st_size} bytes, {time.perf_counter() - began:.0f} s")
        return
    held, strange = rows[cut:], talks[::3]
    known = [name for name in talks if name not in strange]
    if given.services_apart:
        seen = frozenset(sorted(services_of(given.data)[0])[::2])
        held = [row for row in held if any(turn["agent"] not in seen for turn in row["turns"])]
        ready = prepared(drills_of(given.data, rows[:cut], known, seen), encoders)
        report(trained(ready), given.data, held, encoders, f"trained without {len(seen)} services")
    ready = prepared(drills_of(given.data, rows[:cut], known), encoders)
    model = trained(ready)
    report(model, given.data, held, encoders, "held out")
    for examples, described, _ in KNOWN_BY:
        apart = [heard(drill(name, examples, described=described), encoders) for name in strange]
        how = f"at most {examples} examples{' and descriptions' if described else ''}"
        reported(model, apart, f"talks of {len(strange)} companies apart, {how}")


def of_first(data: Path, rows: Sequence[Row], talks: Sequence[str], encoders: Encoders, *, small: bool) -> Model:
    """Trains on these dialogues, the talks and the single requests only. small: with fewer drills, and one fit."""
    divided = SMALL if small else 1
    ready = prepared(drills_of(data, rows, talks[::divided], divided=divided), encoders)
    raw = trained(ready, 1 if small else FITS)
    return Model(raw.coefficients, raw.tracking, temperature(raw, ready))


def prepared(listed: Sequence[Drill], encoders: Encoders) -> list[Ready]:
    ready = []
    for number, each in enumerate(listed):
        ready.append(heard(each, encoders))
        progress("reading", number + 1, len(listed))
    return ready


if __name__ == "__main__":
    main()
