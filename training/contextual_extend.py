"""Teaches the packaged contextual model features that it has no weights for, and writes selection/contextual/contextual.json.

    python training/contextual_extend.py --data DIR [--known FILE] [--out FILE] [--workers N] [--report]

The model keeps its weights. What is fitted is added to them, during conversations only: weights of the new features, and a few
mixtures. The dialogues are part of those that training/contextual.py uses, with more digressions, once with the right history
and once with the known model's. The last fifth of the real dialogues and every third company are never used. It
takes a tenth of a whole training, which gives all weights at once.

--report: writes nothing; reports both models' accuracy on the dialogues that are never used.
"""

import argparse
import itertools
import json
import multiprocessing
import random
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from contextual import NOTE, OUT, services_of
from contextual_companies import Drill, lines_of, read, real_dialogues
from contextual_dialogues import Dialogue
from contextual_fit import Case, Table, blended, extended, fit
from contextual_processes import Chooser, packaged_encoder, play_drill, prepare_drill
from contextual_rollout import Played, cases
from contextual_splices import spliced
from contextual_talks import companies, drill

from turnwise.selection.contextual.features import CLAIMS, CONVERSATION_FEATURES, TURN_FEATURES
from turnwise.selection.contextual.trained_model import Model, dump, parse

PLAIN, DIGRESSING = 100, 60
"""How many dialogues of a drill are real, and how many are made of them with digressions; of a company all are used."""
PLAIN_WEIGHT, DIGRESSING_WEIGHT = 2.0, 0.3
"""Weights of their turns. Made dialogues have more digressions than users; with equal weights plain dialogues lose."""
PARTS, COMPANIES, COMPANIES_DIGRESSING = 4, 16, 10
HIDDEN, EPOCHS, FITS, PENALTY = 8, 8, 4, 1e-2
VARIANTS = ((99, True), (5, False), (3, True))
_encoder = lru_cache(packaged_encoder)


class Lesson(NamedTuple):
    """A drill whose first dialogues are plain. plain: their number; None = all turns count alike."""

    drill: Drill
    plain: int | None = None


class Found(NamedTuple):
    """The cases of a drill, with the right history and with the known model's."""

    name: str
    right: list[Case]
    own: list[Case]


def known_model(path: Path) -> tuple[Model, tuple[str, ...]]:
    """The model of that file with weights of 0 for the features that it does not know, and the names of those claims."""
    data: dict[str, Any] = json.loads(path.read_text("utf-8"))
    new = tuple(name for name in CLAIMS if name not in data["claims"])
    width = len(next(iter(data["mixing"].values())))
    for name in CLAIMS:
        data["claims"].setdefault(name, 0.0)
        data["gates"].setdefault(name, [0.0] * width)
    for name in (*TURN_FEATURES, *CONVERSATION_FEATURES):
        for part in ("stay", "nobody"):
            data[part].setdefault(name, 0.0)
        data["mixing"].setdefault(name, [0.0] * width)
    return parse(json.dumps(data)), new


def lessons_of(data: Path, rows: Sequence[dict[str, Any]], talks: Sequence[str]) -> list[Lesson]:
    """The services with all examples and with five, in parts, and companies, each as it is known in one variant."""
    lines, found = lines_of(rows), list[Lesson]()
    for known, which in zip(services_of(data), ("all", "five"), strict=True):
        for part in range(PARTS):
            talk = real_dialogues(rows[part * 2 + (which == "five") :: 2 * PARTS][: 3 * PLAIN])
            digressing = spliced(talk, DIGRESSING, random.Random(f"{which} {part}"))
            found.append(Lesson(Drill(f"services, {which}, {part}", known, [*talk[:PLAIN], *digressing], lines), PLAIN))
    for number, name in enumerate(talks[:COMPANIES]):
        examples, described = VARIANTS[number % len(VARIANTS)]
        each = drill(name, examples, described=described)
        more = spliced(each.dialogues, COMPANIES_DIGRESSING, random.Random(name))
        found.append(Lesson(each._replace(dialogues=[*each.dialogues, *more])))
    return found


def found_in(given: tuple[int, Lesson, Path]) -> Found:
    """Plays a lesson with the right history and with the known model's."""
    number, lesson, path = given
    model, _ = known_model(path)
    ready = prepare_drill(lesson.drill, _encoder())
    right = play_drill(ready, model.tracking, None, number)
    own = play_drill(ready, model.tracking, Chooser(model), 1000 + number)
    return Found(lesson.drill.name, _weighed(right, lesson), _weighed(own, lesson))


def _weighed(turns: Sequence[Played], lesson: Lesson) -> list[Case]:
    if lesson.plain is None:
        return cases(turns, lesson.drill.weight)
    cut = sum(len(talk.steps) for talk in lesson.drill.dialogues[: lesson.plain])
    return [*cases(turns[:cut], PLAIN_WEIGHT), *cases(turns[cut:], DIGRESSING_WEIGHT)]


def extension(known: Model, new: Sequence[str], found: Sequence[Found], penalty: float = PENALTY) -> Model:
    """The known model with what the cases add to it."""
    every = [case for each in found for case in (*each.right, *each.own) if case.features.active is not None]
    table = Table(every, known.coefficients)
    fits = [fit(table, hidden=HIDDEN, epochs=EPOCHS, seed=seed, penalty=penalty, only=new) for seed in range(FITS)]
    return Model(extended(known.coefficients, blended(fits), new), known.tracking, known.temperature)


def with_temperature(model: Model, found: Sequence[Found]) -> Model:
    """The model with the temperature that calibrates it on its predecessor's histories."""
    turns = [case for each in found for case in each.own if case.target >= 0 and case.features.active is not None]
    losses = {}
    for tried in np.arange(0.7, 2.01, 0.1):
        at = Model(model.coefficients, model.tracking, float(tried))
        losses[float(tried)] = -float(
            np.mean([np.log(max(at.scores(each.features).agents[each.target], 1e-9)) for each in turns[::4]])
        )
    return Model(model.coefficients, model.tracking, min(losses, key=lambda tried: losses[tried]))


def judged(model: Model, each: Drill, title: str) -> None:
    """Prints the accuracy with own and with right history, over all turns and right after a wrong choice."""
    ready, choose = prepare_drill(each, _encoder()), Chooser(model)
    shares = []
    for by in (choose, None):
        right, after = list[bool](), list[bool]()
        for talk in ready.drill.dialogues:
            hits = _hits(model, ready, talk, by, choose)
            right += hits
            after += [hit for before, hit in itertools.pairwise(hits) if not before]
        shares += [f"{100 * np.mean(right):.2f}", f"{100 * np.mean(after or [False]):.1f}"]
    own, own_after, true, _ = shares
    print(f"{title}: own {own} (after a wrong choice {own_after}), right history {true}", flush=True)


def _hits(model: Model, ready: Any, talk: Dialogue, by: Chooser | None, choose: Chooser) -> list[bool]:
    alone = ready._replace(drill=ready.drill._replace(dialogues=[talk]))
    turns = [turn for turn in play_drill(alone, model.tracking, by, 0, harsh=False) if turn.right is not None]
    return [turn.choice == turn.right if by else choose.row(turn.features) == turn.row for turn in turns]


def held_out(data: Path, rows: Sequence[dict[str, Any]], talks: Sequence[str]) -> list[Drill]:
    """Drills to judge by: plain and digressing dialogues of the services, and companies."""
    drills = []
    for known, which in zip(services_of(data), ("all examples", "five examples"), strict=True):
        plain = real_dialogues(rows)
        drills.append(Drill(f"held out, {which}", known, plain[:150]))
        drills.append(Drill(f"held out with digressions, {which}", known, spliced(plain, 80, random.Random(3))))
    for examples, described in VARIANTS:
        apart = [drill(name, examples, described=described) for name in talks]
        drills += apart
    return drills


def main() -> None:
    parser = argparse.ArgumentParser(description="Teaches the contextual model new features.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--known", type=Path, default=OUT)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    rows, talks = read(given.data / "sgd/train.jsonl"), companies()
    cut, apart = len(rows) * 4 // 5, talks[::3]
    used = lessons_of(given.data, rows[:cut], [name for name in talks if name not in apart])
    known, new = known_model(given.known)
    with multiprocessing.get_context("fork").Pool(given.workers) as pool:
        found = list(pool.imap(found_in, [(number, each, given.known) for number, each in enumerate(used)]))
    model = with_temperature(extension(known, new, found), found)
    if given.report:
        for each in held_out(given.data, rows[cut:], apart):
            judged(known, each, f"{each.name}, known")
            judged(model, each, f"{each.name}, extended")
        return
    given.out.write_text(dump(model, NOTE), "utf-8")
    print(f"{given.out}: {given.out.stat().st_size} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
