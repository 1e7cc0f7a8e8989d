"""How the gateway is to stand: where, for whom, and how much of it each may have."""

from typing import Any, Literal

from pydantic import Field, model_validator

from turnwise.facts.fact import Fact

Algorithm = Literal["HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512"]
MEBIBYTE = 1024 * 1024


class JwtConfig(Fact):
    """Which tokens count.

    algorithms: those that are accepted; all HS, or none. key: the shared secret of HS, or a public key as PEM; jwks_url: where
    public keys are published instead. issuer: what the token has to name; None = not looked at. audience: likewise, but
    without one a token that is meant for somebody in particular does not count. user_claim: who it is. role_claim: user,
    operator or admin; a token without it is a user's. agent_roles_claim: a list, or words in one text. leeway_seconds: how far
    clocks may differ.
    """

    algorithms: tuple[Algorithm, ...] = Field(default=("RS256",), min_length=1)
    key: str | None = Field(default=None, repr=False)
    jwks_url: str | None = None
    issuer: str | None = None
    audience: str | None = None
    user_claim: str = "sub"
    role_claim: str = "turnwise_role"
    agent_roles_claim: str = "roles"
    leeway_seconds: float = Field(default=30.0, ge=0)


class AuthConfig(Fact):
    """keys: whether API keys (`turnwise keys`) count. jwt: which tokens do; None = none."""

    keys: bool = True
    jwt: JwtConfig | None = None


class CallerLimits(Fact):
    """What one credential, and one user, may have.

    requests, bytes: in a minute. runs: answers at once. shared: counted in the session store's database, so that all processes
    that serve it count together; otherwise each counts for itself. failures: requests with a wrong credential from one address
    in a minute, always of one process.
    """

    requests: int = Field(default=600, ge=1)
    bytes: int = Field(default=200 * MEBIBYTE, ge=1)
    runs: int = Field(default=20, ge=1)
    failures: int = Field(default=30, ge=1)
    shared: bool = False


class Switch(Fact):
    """Whether a protocol is spoken. on: None = if what it takes is installed. In a file, `true` and `false` say it alone, and
    settings say that it is.
    """

    on: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _in_short(cls, given: Any) -> Any:
        if isinstance(given, bool):
            return {"on": given}
        return {"on": True, **given} if isinstance(given, dict) and given else given


class A2aConfig(Switch):
    """A2A: agents of others as callers.

    name, description, version: of the card; None = the app's name, and what its root agent says of itself. card_seconds: how
    long the card may be kept by who read it. private_pushes: whether notifications may be sent to addresses that are not
    public, such as this machine's own.
    """

    name: str | None = None
    description: str | None = None
    version: str = "1"
    card_seconds: int = Field(default=300, ge=0)
    private_pushes: bool = False


class AgUiConfig(Switch):
    """AG-UI: front ends as callers.

    questions: how an agent's question reaches the front end. `message`: as an answer like any other; the user's next message
    replies to it. `interrupt`: as an interrupt, which the client has to answer before it may send another message. A request
    may choose for itself. Confirmations of tool calls are interrupts either way.
    """

    questions: Literal["message", "interrupt"] = "message"


class AdkConfig(Switch):
    """The REST interface of Google's Agent Development Kit. web: the folder with the static files of its web page; None = no
    page.
    """

    web: str | None = None


class McpConfig(Switch):
    """The front door as a server of the Model Context Protocol. agents: whether each agent is a tool of its own, too."""

    agents: bool = False


class Protocols(Fact):
    """What is spoken beside our own API, and below which path: OpenAI's (/v1), the reference router's (/api/v1/graph-chat), A2A
    (/a2a), AG-UI (/ag-ui), ADK's (/adk), MCP (/mcp).
    """

    openai: Switch = Switch()
    graph_chat: Switch = Switch()
    a2a: A2aConfig = A2aConfig()
    ag_ui: AgUiConfig = AgUiConfig()
    adk: AdkConfig = AdkConfig()
    mcp: McpConfig = McpConfig()


class GatewayConfig(Fact):
    """The section `gateway` of a configuration file.

    host, port: where it listens. auth: who may enter; None = everybody, who is then an admin, so only on this machine's own
    address. origins: web pages that may call it from a browser (CORS): each as `https://host[:port]`, or `*`. limits: of each
    caller. body_bytes: one request's body, uploads aside, which `limits.blob_bytes` bounds. request_seconds: how long a body
    may take to come; one that is large gets more, at a pace of 64 KiB a second. stream_ping_seconds: a sign of life on a quiet
    stream. grace_seconds: what running answers may still take when it is stopped. trusted_proxies: addresses, or networks,
    whose `X-Forwarded-*` headers count. documentation: whether `/docs` and the OpenAPI are there. public_url: where it is for
    callers, without a slash at the end; None = as each request names it. protocols: what is spoken.
    """

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    auth: AuthConfig | None = None
    origins: tuple[str, ...] = ()
    limits: CallerLimits = CallerLimits()
    body_bytes: int = Field(default=40 * MEBIBYTE, ge=1024)
    request_seconds: float = Field(default=30.0, gt=0)
    stream_ping_seconds: float = Field(default=15.0, gt=0)
    grace_seconds: float = Field(default=25.0, ge=0)
    trusted_proxies: tuple[str, ...] = ()
    documentation: bool = True
    public_url: str | None = Field(default=None, pattern=r"^https?://[^\s/?#]+(/[^\s?#]*[^\s/?#])?$")
    protocols: Protocols = Protocols()
