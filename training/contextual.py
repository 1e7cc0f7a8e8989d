"""Trains the contextual model, writes selection/contextual/contextual.json, and prints its accuracy.

    python training/contextual.py --data DIR [--out FILE] [--held-out | --services-apart | --report]

DIR holds clinc150/, banking77/, smalltalk/ and sgd/ as line-delimited JSON. The conversations in training/talks are training
data too. The same data give the same file on the same machine, in minutes; other machines may round sums differently.

--held-out: trains without the last fifth of the real dialogues and without every third company of the talks, and reports on
them; writes nothing. --services-apart: the same, also without half of the services; reports on held-out dialogues with those.
--report: trains nothing; reports the packaged model's accuracy on sgd/dev.jsonl, which no training uses.
--first N --out FILE: sees only the first N dialogues of sgd/train.jsonl; the others can be traffic that the model never saw.
With --small it has a quarter of the other drills and one fit: minutes instead of an hour, for comparisons.
--encoders DIR: a folder with the exported encoders third-0, third-1, third-2 and without-clinc150 of training/encoder.py, each
with its small talk and strangers (--encoder of those scripts). Each set of agents is then read by the encoder that was fitted
without its texts, as agents in use are new to the encoder.
"""

import argparse
import json
import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import encoder_folder
import numpy as np
from contextual_belief import STEPS, fit_tracking
from contextual_companies import Drill, by_agent, elsewhere, lines_of, made_up, read, real_dialogues, services
from contextual_fit import Table, blended, fit
from contextual_processes import (
    Chooser,
    DrillProcesses,
    PlaySettings,
    PreparedDrill,
    packaged_encoder,
    play_drill,
    prepare_drill,
    progress,
)
from contextual_rollout import Played
from contextual_splices import spliced
from contextual_talks import KNOWN_BY, companies, drill, drills

from turnwise.selection.contextual import trained_model as model_module
from turnwise.selection.contextual.trained_model import Coefficients, Model, dump, load_shipped

OUT = Path(str(model_module.__file__)).with_name("contextual.json")
ROUNDS, HIDDEN, EPOCHS, FITS = 2, 24, 8, 6
SMALL = 4
"""By how much the numbers of drills are divided for a small training."""
STRANGE = "third-0"
"""The encoder that has not seen the companies left out."""
OWN_WEIGHT = 0.5
"""Weight of a turn from the model's own history, relative to one from the right history."""
TALKS_WEIGHT = 1.0
DIGRESSIONS = 0.3
"""How many dialogues with digressions are added to a drill, for each dialogue that it has."""
NOTE = (
    "Made by training/contextual.py from CLINC150 (CC BY 3.0), BANKING77 (CC BY 4.0), SGD (CC BY-SA 4.0)"
    " and Microsoft personality chat (MIT), and from the project's own conversations."
)


Row = Mapping[str, Any]
Examples = Mapping[str, Sequence[str]]


def accuracy(turns: Sequence[Played], choose: Chooser | None = None) -> float:
    """Percentage of right choices: of those made, or of those that `choose` makes at the same turns."""
    counted = [turn for turn in turns if turn.right is not None]
    right = [turn.choice == turn.right if choose is None else choose.row(turn.features) == turn.row for turn in counted]
    return 100.0 * float(np.mean(right)) if right else float("nan")


def trained(players: DrillProcesses, fits: int = FITS) -> Model:
    """Trains the model on right histories and, in rounds, on its own. The last round's model is the mean of several fits."""
    tracking = fit_tracking(players.tracks(), told=_report_step)
    every = frozenset(range(len(players.drills)))
    pool = players.cases(PlaySettings("right histories", tracking, None, 0, every))
    coefficients = fit(Table(pool), hidden=HIDDEN, epochs=EPOCHS)
    for turn in range(ROUNDS):
        harsh = every if turn == 0 else frozenset(range(0, len(every), 2))
        own = PlaySettings(f"own histories {turn + 1}", tracking, Model(coefficients, tracking), 1000 * turn, harsh, OWN_WEIGHT)
        pool += players.cases(own)
        table, last = Table(pool), turn == ROUNDS - 1
        coefficients = blended(fit_seeds(table, fits if last else 1))
    return Model(coefficients, tracking)


def fit_seeds(table: Table, count: int) -> list[Coefficients]:
    """Fits with other seeds, two at once."""
    if count == 1:
        return [_fitted(table, 0)]
    with ThreadPoolExecutor(2) as pool:  # numpy computes without the interpreter's lock
        return list(pool.map(partial(_fitted, table), range(count)))


def _fitted(table: Table, seed: int) -> Coefficients:
    return fit(table, hidden=HIDDEN, epochs=EPOCHS, seed=seed, told=partial(_report_epoch, len(table)))


def _report_step(step: int, loss: float) -> None:
    progress(f"fitting the belief, loss {loss:.4f}", step, STEPS)


def _report_epoch(turns: int, epoch: int, loss: float) -> None:
    progress(f"fitting {turns} turns, loss {loss:.4f}", epoch + 1, EPOCHS)


def temperature(raw: Model, players: DrillProcesses) -> float:
    """The temperature that calibrates the confidences, over the model's own histories."""
    own = players.cases(PlaySettings("calibrating", raw.tracking, raw, 9000, frozenset()))
    found = [each for each in own if each.target >= 0 and each.features.active is not None]
    losses = {}
    for tried in np.arange(0.7, 2.01, 0.1):
        model = Model(raw.coefficients, raw.tracking, float(tried))
        likely = [np.log(max(model.scores(each.features).agents[each.target], 1e-9)) for each in found[::4]]
        losses[float(tried)] = -float(np.mean(likely))
    return min(losses, key=lambda tried: losses[tried])


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


def report(model: Model, data: Path, rows: Sequence[Row], title: str) -> None:
    """Prints the accuracy on these dialogues for services with all examples and with five."""
    encoder = packaged_encoder()
    for known, which in zip(services_of(data), ("all examples", "five examples"), strict=True):
        reported(model, [prepare_drill(Drill(which, known, real_dialogues(rows)), encoder)], f"{title}, {which}")


def reported(model: Model, ready: Sequence[PreparedDrill], title: str) -> None:
    """Prints the accuracy over all turns, with own and with right history."""
    choose = Chooser(model)
    own = [turn for each in ready for turn in play_drill(each, model.tracking, choose, 0, harsh=False)]
    right = [turn for each in ready for turn in play_drill(each, model.tracking, None, 0, harsh=False)]
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
    if given.small and given.first is None:
        parser.error("--small is a comparison: it needs --first N and --out FILE")
    began = time.perf_counter()
    if given.report:
        report(load_shipped(), given.data, read(given.data / "sgd/dev.jsonl"), "dev")
        return
    rows, talks = read(given.data / "sgd/train.jsonl"), companies()
    if given.held_out or given.services_apart:
        measured(given.data, rows, talks, given.encoders, apart=given.services_apart)
        return
    note = NOTE if given.first is None else f"{NOTE} Only {given.first} dialogues of SGD."
    divided = SMALL if given.small else 1
    drills = drills_of(given.data, rows[: given.first], talks[::divided], divided=divided)
    with DrillProcesses(drills, given.encoders) as players:
        raw = trained(players, 1 if given.small else FITS)
        model = Model(raw.coefficients, raw.tracking, temperature(raw, players))
    given.out.write_text(dump(model, note), "utf-8")
    print(f"{given.out}: {given.out.stat().st_size} bytes, {time.perf_counter() - began:.0f} s")


def measured(data: Path, rows: Sequence[Row], talks: Sequence[str], folder: Path | None, *, apart: bool) -> None:
    """Trains without some dialogues and companies, and reports on them. apart: first without half of the services, too."""
    cut, strange = len(rows) * 4 // 5, talks[::3]
    known, held = [name for name in talks if name not in strange], rows[cut:]
    if apart:
        seen = frozenset(sorted(services_of(data)[0])[::2])
        held = [row for row in held if any(turn["agent"] not in seen for turn in row["turns"])]
        with DrillProcesses(drills_of(data, rows[:cut], known, seen), folder) as players:
            report(trained(players), data, held, f"trained without {len(seen)} services")
    with DrillProcesses(drills_of(data, rows[:cut], known), folder) as players:
        model = trained(players)
    report(model, data, held, "held out")
    if folder is not None:
        encoder_folder.use(folder / STRANGE)
    encoder = packaged_encoder()
    for examples, described, _ in KNOWN_BY:
        ready = [prepare_drill(drill(name, examples, described=described), encoder) for name in strange]
        how = f"at most {examples} examples{' and descriptions' if described else ''}"
        reported(model, ready, f"talks of {len(strange)} companies apart, {how}")


if __name__ == "__main__":
    main()
