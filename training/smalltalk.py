"""Trains the packaged small-talk model: `python training/smalltalk.py --data DIR [--encoder DIR]`.

DIR holds `clinc150`, `banking77`, `sgd` and `smalltalk` as lines of JSON. Prints the measurements and writes
`src/turnwise/matching/data/smalltalk.json`; for another exported encoder, into its folder. Every choice is made on training
data; test data is only used to report.
"""

import argparse
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import encoder_folder
import numpy as np
from numpy.typing import NDArray
from rich.progress import track

from turnwise.matching import smalltalk
from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.matching.smalltalk import LISTS_FILE, features, fit, wording
from turnwise.matching.text_features import text_features

FALSE_ALARMS = 0.012  # share of out-of-fold requests at the threshold that is mapped to the probability 0.5
FOLDS = 3
COMMON = 0.0015  # minimum frequency, in at least two sources, of a word in the vocabulary
WORD_SCALE = 0.7
TOTAL_WEIGHT = 4_000.0
ATTRIBUTION = [
    "Small talk: Microsoft personality chat (MIT).",
    "Requests and some small talk: CLINC150, Larson et al. 2019 (CC BY 3.0).",
    "Requests: BANKING77, Casanueva et al. 2020 (CC BY 4.0).",
    "Turns of dialogues: Schema-Guided Dialogue, Rastogi et al. 2020 (CC BY-SA 4.0).",
    "Lists in smalltalk_lists.json: Turnwise.",
]
GREETINGS = (
    "hi, ",
    "hello, ",
    "hey ",
    "hi there! ",
    "Good morning, ",
    "hello, how are you? ",
    "thanks. ",
    "ok great. ",
    "Great, thanks! ",
)

Rows = NDArray[np.float32]
Score = Callable[[Rows], NDArray[np.float64]]


class Part(NamedTuple):
    """Texts of one source: whether they are small talk, their total weight, and their name."""

    name: str
    texts: list[str]
    label: float
    weight: float


def read(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def unique(texts: Iterable[object]) -> list[str]:
    return list(dict.fromkeys(str(text) for text in texts if text))


def clinc(folder: Path, split: str) -> tuple[list[str], list[str]]:
    """Requests, and the texts of the small-talk domain."""
    domains = json.loads((folder / "clinc150" / "domains.json").read_text(encoding="utf-8"))
    chatting = set(domains["small_talk"])
    rows = [row for row in read(folder / "clinc150" / f"{split}.jsonl") if row["agent"]]
    return (
        unique(row["text"] for row in rows if row["agent"] not in chatting),
        unique(row["text"] for row in rows if row["agent"] in chatting),
    )


def dialogues(path: Path) -> tuple[list[str], list[str]]:
    """Turns about the task, and turns that only thank or say goodbye. Other turns are left out."""
    working, polite = [], []
    for text in unique(turn["user"] for row in read(path) for turn in row["turns"]):  # type: ignore[attr-defined]
        seen = text_features(text)
        value = seen.numbers or seen.date or seen.time or seen.money or seen.email
        courtesy = seen.thanks or seen.closing or seen.opens_greeting
        if courtesy and not (seen.content or value or seen.question_mark or seen.asks):
            polite.append(text)
        elif (seen.content or value) and not ((seen.thanks or seen.closing) and seen.rest <= 8):
            working.append(text)
    return working, polite


def misspelt(text: str, chance: random.Random) -> str:
    """Swaps, omits or doubles one letter of a longer word."""
    places = [found.span() for found in re.finditer(r"\w{4,}", text)]
    if not places:
        return text
    begin, end = chance.choice(places)
    at = chance.randrange(begin, end - 1)
    return text[:at] + chance.choice((text[at + 1] + text[at], text[at + 1], text[at] * 2 + text[at + 1])) + text[at + 2 :]


def bare(text: str) -> str:
    """The text in lower case without punctuation, as many people write."""
    return re.sub(r"[?!.,]", "", text).lower()


def parts(folder: Path) -> list[Part]:
    """All training data. Texts derived from others are named by their source, a colon, and how they were made."""
    chance = random.Random(7)
    requests, chatting = clinc(folder, "train")
    banking = unique(row["text"] for row in read(folder / "banking77" / "train.jsonl"))
    working, polite = dialogues(folder / "sgd" / "train.jsonl")
    working = chance.sample(working, 6_000)
    talk = unique(row["text"] for row in read(folder / "smalltalk" / "train.jsonl"))
    lists = json.loads(LISTS_FILE.read_text(encoding="utf-8"))
    own, own_talk = lists["requests"], lists["smalltalk"]
    made = [
        Part("clinc150", requests, 0.0, 0.7),
        Part("banking77", banking, 0.0, 0.3),
        Part("sgd", working, 0.0, 0.25),
        Part("own requests", own, 0.0, 0.25),
        Part("smalltalk", talk, 1.0, 0.9),
        Part("clinc150 small talk", chatting, 1.0, 0.15),
        Part("sgd thanks", polite, 1.0, 0.1),
        Part("own small talk", own_talk, 1.0, 0.25),
    ]
    for part in made[:4]:
        some = chance.sample(part.texts, min(700, len(part.texts)))
        made.append(Part(f"{part.name}: greeted", [chance.choice(GREETINGS) + text for text in some], 0.0, 0.04))
        made.append(Part(f"{part.name}: misspelt", [misspelt(text, chance) for text in some], 0.0, 0.04))
        made.append(Part(f"{part.name}: other marks", [bare(text) + chance.choice(("", "?", "!")) for text in some], 0.0, 0.04))
    some = chance.sample(talk, 1_500)
    made.append(Part("smalltalk: misspelt", [misspelt(text, chance) for text in some], 1.0, 0.1))
    made.append(Part("smalltalk: bare", [bare(text) for text in some], 1.0, 0.1))
    pairs = [f"{chance.choice(own_talk)}{chance.choice(('. ', ', ', ' '))}{chance.choice(own_talk)}" for _ in range(500)]
    made.append(Part("own small talk: pairs", pairs, 1.0, 0.05))
    return made


class Encoded:
    """Rows of features for texts; each text is encoded once."""

    def __init__(self) -> None:
        self.encoder = OnnxEncoder()
        self._known: dict[str, Rows] = {}

    def rows(self, texts: Sequence[str], words: dict[str, int]) -> Rows:
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for start in track(range(0, len(new), 512), description=f"encoding {len(new)} texts", disable=len(new) < 512):
            some = new[start : start + 512]
            self._known.update(zip(some, self.encoder.encode(some), strict=True))
        said = np.zeros((len(texts), len(words)), np.float32)
        for row, text in zip(said, texts, strict=True):
            row[[words[each] for each in wording(text) if each in words]] = WORD_SCALE
        vectors = np.array([self._known[text] for text in texts], np.float32)
        return np.hstack([features(vectors, texts), said])


def vocabulary(made: Sequence[Part]) -> dict[str, int]:
    """Words and pairs that are frequent in at least two of the large sources."""
    counts = []
    for part in made:
        if part.name in ("clinc150", "banking77", "sgd", "smalltalk"):
            found = Counter(each for text in part.texts for each in wording(text))
            counts.append({each for each, count in found.items() if count >= COMMON * len(part.texts)})
    often = Counter(each for one in counts for each in one)
    return {each: at for at, each in enumerate(sorted(each for each, sources in often.items() if sources > 1))}


class Corpus:
    """The parts as one table. A text and its derived texts share a fold."""

    def __init__(self, made: Sequence[Part], encoded: Encoded, words: dict[str, int]) -> None:
        self.sources = np.array([part.name for part in made for _ in part.texts])
        self.labels = np.array([part.label for part in made for _ in part.texts], np.float32)
        weights = np.array([part.weight / len(part.texts) for part in made for _ in part.texts], np.float32)
        self.weights = weights
        texts = [text for part in made for text in part.texts]
        self.rows = encoded.rows(texts, words)
        chance = np.random.default_rng(3)
        self.folds = chance.integers(0, FOLDS, len(texts))
        # Derived texts would leak their source: only the final fit, which uses everything, is trained on them.
        self.made = np.array([":" in source for source in self.sources])

    def fitted(self, rows: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
        weights = self.weights[rows]
        return fit(self.rows[rows], self.labels[rows], weights * np.float32(TOTAL_WEIGHT / weights.sum()))

    def scorer(self, rows: NDArray[np.bool_]) -> Score:
        weights, bias = self.fitted(rows)
        return lambda given: given @ weights + bias


def crossed(corpus: Corpus) -> NDArray[np.float64]:
    """Each text's score by a model that saw neither it nor its derived texts (NaN for derived texts)."""
    scores = np.full(len(corpus.labels), np.nan)
    for fold in track(range(FOLDS), description="cross-validation"):
        out = (corpus.folds == fold) & ~corpus.made
        scores[out] = corpus.scorer((corpus.folds != fold) & ~corpus.made)(corpus.rows[out])
    return scores


def report_sources(corpus: Corpus, scores: NDArray[np.float64], bound: float) -> None:
    print(
        f"\nOut of fold, where {100 * FALSE_ALARMS:.1f} % of the requests of CLINC150 and BANKING77 are taken for small talk:"
    )
    for source in dict.fromkeys(corpus.sources[~corpus.made]):
        mine = corpus.sources == source
        verb = "found" if corpus.labels[mine][0] else "false alarms"
        print(f"  {source:22} {verb:13} {100 * (scores[mine] > bound).mean():5.1f} %  of {mine.sum()}")


def report_unseen_sources(corpus: Corpus) -> None:
    print(f"\nA source of requests held out, with one in {FOLDS} of the small talk:")
    for held in ("clinc150", "banking77", "sgd"):
        mine = np.array([source.startswith(held) for source in corpus.sources])
        talk = (corpus.sources == "smalltalk") & (corpus.folds == 0)
        made = np.array([source.startswith("smalltalk:") for source in corpus.sources])
        score = corpus.scorer(~mine & ~talk & ~made)
        requests, chatting = score(corpus.rows[corpus.sources == held]), score(corpus.rows[talk])
        found = [100 * (chatting > np.quantile(requests, 1 - rate)).mean() for rate in (0.02, 0.05)]
        print(f"  {held:10} {found[0]:5.1f} % found at 2 % false alarms, {found[1]:5.1f} % at 5 %")


def report_tests(folder: Path, encoded: Encoded, words: dict[str, int], score: Score, bound: float) -> None:
    requests, chatting = clinc(folder, "test")
    working, polite = dialogues(folder / "sgd" / "dev.jsonl")
    banking = unique(row["text"] for row in read(folder / "banking77" / "test.jsonl"))
    nobody = unique(row["text"] for row in read(folder / "clinc150" / "test.jsonl") if not row["agent"])
    sets = {
        "CLINC150 requests": requests,
        "BANKING77 requests": banking,
        "both": requests + banking,
        "CLINC150 out of scope": nobody,
        "SGD turns": working,
        "CLINC150 small talk": chatting,
        "SGD thanks": polite,
    }
    print("\nTest data, the final model at the same point, taken for small talk:")
    for name, texts in sets.items():
        scores = score(encoded.rows(texts, words))
        print(f"  {name:22} {100 * (scores > bound).mean():5.2f} %  of {len(texts)}")


def write(weights: NDArray[np.float64], bias: float, words: dict[str, int], fingerprint: str) -> None:
    clue_weights, said = weights[: len(weights) - len(words)], weights[len(weights) - len(words) :] * WORD_SCALE
    document = {
        "format": 1,
        "about": "Logistic regression that tells small talk from requests; made by training/smalltalk.py.",
        "attribution": ATTRIBUTION,
        "encoder": fingerprint,
        "bias": round(bias, 4),
        "weights": [round(float(each), 4) for each in clue_weights],
        "words": {word: round(float(said[at]), 3) for word, at in words.items() if abs(said[at]) >= 0.02},
    }
    file = smalltalk.MODEL_FILE
    file.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    print(f"\nWrote {file.name}: {file.stat().st_size / 1024:.0f} KiB, {len(document['words'])} words.")  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains the small-talk model that is shipped.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder with the data sets")
    parser.add_argument("--encoder", type=Path, metavar="DIR", help="an exported encoder instead of the packaged one")
    parser.add_argument("--quick", action="store_true", help="no report on sources held out")
    given = parser.parse_args()
    if given.encoder:
        encoder_folder.use(given.encoder)
    made = parts(given.data)
    words = vocabulary(made)
    encoded = Encoded()
    corpus = Corpus(made, encoded, words)
    scores = crossed(corpus)
    requests = np.isin(corpus.sources, ("clinc150", "banking77"))
    bound = float(np.quantile(scores[requests], 1.0 - FALSE_ALARMS))
    report_sources(corpus, scores, bound)
    weights, bias = corpus.fitted(np.ones(len(corpus.labels), dtype=bool))
    report_tests(given.data, encoded, words, lambda rows: rows @ weights + bias, bound)
    write(weights, bias - bound, words, encoded.encoder.fingerprint.partition("@")[0])
    if not given.quick:
        report_unseen_sources(corpus)


if __name__ == "__main__":
    main()
