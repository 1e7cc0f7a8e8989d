"""The gateway: serves an app over HTTP."""

from typing import TYPE_CHECKING

from turnwise.facts.face import face

if TYPE_CHECKING:
    from turnwise.facts.gateway import GatewayConfig as GatewayConfig
    from turnwise.gateway.server import front_for as front_for, serving as serving

__all__, __getattr__ = face(
    __name__,
    {
        "turnwise.facts.gateway": "GatewayConfig",
        "turnwise.gateway.server": "front_for serving",
    },
)
