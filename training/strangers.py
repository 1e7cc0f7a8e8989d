"""Writes the vectors of the sample of strangers' requests: python training/strangers.py

The texts are in `matching/data/strangers.json`, written by hand for this project. A new text, or another bundled encoder, needs
new vectors.
"""

import json

import numpy as np

from turnwise.matching.encoder.onnx_encoder import OnnxEncoder
from turnwise.matching.strangers import TEXTS_FILE, VECTORS_FILE

if __name__ == "__main__":
    texts, encoder = json.loads(TEXTS_FILE.read_text("utf-8"))["texts"], OnnxEncoder()
    known = {"encoder": encoder.fingerprint.partition("@")[0], "texts": texts}
    TEXTS_FILE.write_text(json.dumps(known, indent=0, ensure_ascii=False) + "\n", "utf-8")
    np.save(VECTORS_FILE, encoder.encode(texts).astype(np.float16))
    print(f"{len(texts)} texts")
