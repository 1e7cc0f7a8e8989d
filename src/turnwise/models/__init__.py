"""Language models by name, fallbacks, and encoders that turn texts into vectors."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.facts.usage import Usage as Usage
    from turnwise.matching.encoder.caching import CachingEncoder as CachingEncoder
    from turnwise.matching.encoder.onnx_encoder import OnnxEncoder as OnnxEncoder
    from turnwise.models.by_name import (
        FallbackModel as FallbackModel,
        ModelEndpoint as ModelEndpoint,
        Spec as Spec,
        model_of as model_of,
    )
    from turnwise.models.encoders import CallableEncoder as CallableEncoder, EndpointEncoder as EndpointEncoder
    from turnwise.ports.encoder import Encoder as Encoder
    from turnwise.ports.model import (
        LENGTH as LENGTH,
        Model as Model,
        ModelPiece as ModelPiece,
        ModelReply as ModelReply,
        ModelRequest as ModelRequest,
    )

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.facts.usage": "Usage",
        "turnwise.matching.encoder.caching": "CachingEncoder",
        "turnwise.matching.encoder.onnx_encoder": "OnnxEncoder",
        "turnwise.models.by_name": "FallbackModel ModelEndpoint Spec model_of",
        "turnwise.models.encoders": "CallableEncoder EndpointEncoder",
        "turnwise.ports.encoder": "Encoder",
        "turnwise.ports.model": "LENGTH Model ModelPiece ModelReply ModelRequest",
    },
)
