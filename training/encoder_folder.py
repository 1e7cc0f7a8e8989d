"""An encoder in a folder, with the small talk and the strangers that were fitted to it, in place of the packaged ones."""

from pathlib import Path

from turnwise.matching import smalltalk, strangers
from turnwise.matching.encoder import onnx_encoder


def use(folder: Path) -> None:
    """Makes this process read the folder's files instead of the packaged ones. What was read before is forgotten."""
    onnx_encoder.SHIPPED = folder
    smalltalk.MODEL_FILE = folder / smalltalk.MODEL_FILE.name
    strangers.TEXTS_FILE = folder / strangers.TEXTS_FILE.name
    strangers.VECTORS_FILE = folder / strangers.VECTORS_FILE.name
    for read in (smalltalk._shipped, strangers._texts, strangers._sample):
        read.cache_clear()
