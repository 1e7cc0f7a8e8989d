"""Writes the vectors of the sample of strangers' requests: python training/strangers.py [--encoder DIR]

The texts are in `matching/data/strangers.json`, written by hand for this project. A new text, or another bundled encoder, needs
new vectors. --encoder DIR: an exported encoder; writes into its folder instead.
"""

import argparse
import json
from pathlib import Path

import encoder_folder
import numpy as np

from turnwise.matching import novelty
from turnwise.matching.encoder.onnx_encoder import OnnxEncoder

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Writes the vectors of the sample of strangers' requests.")
    parser.add_argument("--encoder", type=Path, metavar="DIR")
    given = parser.parse_args()
    texts = json.loads(novelty.TEXTS_FILE.read_text("utf-8"))["texts"]
    if given.encoder:
        encoder_folder.use(given.encoder)
    encoder = OnnxEncoder()
    known = {"encoder": encoder.fingerprint.partition("@")[0], "texts": texts}
    novelty.TEXTS_FILE.write_text(json.dumps(known, indent=0, ensure_ascii=False) + "\n", "utf-8")
    np.save(novelty.VECTORS_FILE, encoder.encode(texts).astype(np.float16))
    print(f"{len(texts)} texts")
