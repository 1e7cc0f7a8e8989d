"""A local text encoder on ONNX Runtime: no network, no key, no machine-learning framework."""
