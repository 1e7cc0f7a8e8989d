"""An encoder in a folder, with the small talk and the strangers that were fitted to it, in place of the packaged ones."""

from pathlib import Path

from turnwise.matching import novelty, smalltalk
from turnwise.matching.encoder import onnx_encoder


def use(folder: Path) -> None:
    """Makes this process read the folder's files instead of the packaged ones. What was read before is forgotten."""
    onnx_encoder.SHIPPED = folder
    smalltalk.MODEL_FILE = folder / smalltalk.MODEL_FILE.name
    novelty.TEXTS_FILE = folder / novelty.TEXTS_FILE.name
    novelty.VECTORS_FILE = folder / novelty.VECTORS_FILE.name
    for read in (smalltalk._shipped, novelty._texts, novelty._sample):
        read.cache_clear()
