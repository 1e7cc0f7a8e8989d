"""The configuration of the gateway: address, authentication, limits and protocols."""

from typing import Any, Literal

from pydantic import Field, model_validator

from turnwise.facts.fact import Fact

Algorithm = Literal["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512"]
MEBIBYTE = 1024 * 1024


class JwtConfig(Fact):
    """Validation of JSON Web Tokens."""

    algorithms: tuple[Algorithm, ...] = Field(default=("RS256",), min_length=1)
    """The accepted algorithms: either only HS ones, or none of them."""
    key: str | None = Field(default=None, repr=False)
    """The shared secret for HS algorithms, or a public key as PEM."""
    jwks_url: str | None = None
    """The URL of the published public keys, in place of `key`."""
    issuer: str | None = None
    """The required issuer; None accepts any."""
    audience: str | None = None
    """The required audience. None accepts only tokens without an audience."""
    user_claim: str = "sub"
    """The claim with the user's id."""
    role_claim: str = "turnwise_role"
    """The claim with the role: user, operator or admin. A token without it has the role user."""
    agent_roles_claim: str = "roles"
    """The claim with the agent roles: a list, or words in one text."""
    leeway_seconds: float = Field(default=30.0, ge=0)
    """The allowed clock difference."""


class AuthConfig(Fact):
    """Accepted credentials."""

    keys: bool = True
    """True if API keys (`turnwise keys`) are accepted."""
    jwt: JwtConfig | None = None
    """Which tokens are accepted; None means none."""


class CallerLimits(Fact):
    """Limits per credential and per user."""

    requests: int = Field(default=600, ge=1)
    """Requests per minute. A rewind, a fork, an import or a deletion counts as more, by the data that it touches."""
    bytes: int = Field(default=200 * MEBIBYTE, ge=1)
    """Bytes per minute, received and sent."""
    runs: int = Field(default=20, ge=1)
    """Concurrent answers."""
    connections: int = Field(default=100, ge=1)
    """Requests and streams that are open at once, always counted per process."""
    failures: int = Field(default=30, ge=1)
    """Requests with a wrong credential from one address per minute, always counted per process."""
    shared: bool = False
    """True if all processes count together in the session store's database; otherwise each process counts alone."""


class Switch(Fact):
    """Enables a protocol. In a file, `true` and `false` stand for the whole section, and any setting enables it."""

    on: bool | None = None
    """None enables the protocol if its dependencies are installed."""

    @model_validator(mode="before")
    @classmethod
    def _expand_shorthand(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return {"on": value}
        return {"on": True, **value} if isinstance(value, dict) and value else value


class A2aConfig(Switch):
    """A2A: remote agents as callers."""

    name: str | None = None
    """The name on the card; None means the app's name."""
    description: str | None = None
    """The description on the card; None means that of the root agent."""
    version: str = "1"
    """The version on the card."""
    card_seconds: int = Field(default=300, ge=0)
    """How long readers may cache the card."""
    private_pushes: bool = False
    """True if notifications may be sent to addresses that are not public, such as this machine's."""


class AgUiConfig(Switch):
    """AG-UI: front ends as callers."""

    questions: Literal["message", "interrupt"] = "message"
    """How an agent's question reaches the front end; a request may override it. `message`: as an ordinary answer, and the
    user's next message replies to it. `interrupt`: as an interrupt, which the client must answer before its next message.
    Confirmations of tool calls are always interrupts.
    """


class AdkConfig(Switch):
    """The REST interface of Google's Agent Development Kit."""

    web: str | None = None
    """The folder with the static files of its web page; None means no page."""


class McpConfig(Switch):
    """The runner as a server of the Model Context Protocol."""

    agents: bool = False
    """True if each agent is also a tool."""


class Protocols(Fact):
    """The protocols beside the native API, and their paths."""

    openai: Switch = Switch()
    """OpenAI's API, at /v1."""
    graph_chat: Switch = Switch()
    """The reference router's API, at /api/v1/graph-chat."""
    a2a: A2aConfig = A2aConfig()
    """At /a2a."""
    ag_ui: AgUiConfig = AgUiConfig()
    """At /ag-ui."""
    adk: AdkConfig = AdkConfig()
    """At /adk."""
    mcp: McpConfig = McpConfig()
    """At /mcp."""


class GatewayConfig(Fact):
    """The section `gateway` of a configuration file."""

    host: str = "127.0.0.1"
    """The address to listen on. Any other than loopback needs `auth`."""
    port: int = Field(default=8000, ge=0, le=65535)
    """The TCP port; 0 picks a free one."""
    auth: AuthConfig | None = None
    """The accepted credentials. None makes every caller an admin, and is only allowed on a loopback address."""
    origins: tuple[str, ...] = ()
    """Web pages that may call the gateway from a browser (CORS): `https://host[:port]`, or `*`."""
    limits: CallerLimits = CallerLimits()
    """Limits per caller."""
    connections: int | None = Field(default=None, ge=1)
    """Open connections of each process. None means four fifths of the files that the process may open."""
    body_bytes: int = Field(default=40 * MEBIBYTE, ge=1024)
    """The maximum request body, except for uploads, which `limits.blob_bytes` limits."""
    request_seconds: float = Field(default=30.0, gt=0)
    """The timeout for receiving a body. Large bodies get more time, at 64 KiB per second."""
    stream_ping_seconds: float = Field(default=15.0, gt=0)
    """The interval of keep-alive pings on a quiet stream."""
    grace_seconds: float = Field(default=25.0, ge=0)
    """How long running answers may continue during shutdown."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks with trusted `X-Forwarded-*` headers."""
    documentation: bool = True
    """True to serve `/docs` and the OpenAPI schema."""
    console: bool = True
    """True to serve the console at `/console/`."""
    public_url: str | None = Field(default=None, pattern=r"^https?://[^\s/?#]+(/[^\s?#]*[^\s/?#])?$")
    """The gateway's URL for callers, without a trailing slash; None means the URL of each request."""
    protocols: Protocols = Protocols()
    """The enabled protocols."""
