"""Every error Turnwise raises, as one tree. Catch the branch that you can act on.

TurnwiseError
├── ConfigError              what somebody wrote down is wrong; nothing was started
│   ├── ImportPathError      an import path that does not import
│   ├── TreeError            agents that do not form one tree
│   │   ├── DuplicateAgent   two agents with one name, or one agent in two places
│   │   └── TreeCycle        an agent below itself
│   ├── AgentDefinitionError a card or a function that cannot be an agent
│   ├── FlowDefinitionError  tasks that cannot be a flow
│   ├── PolicyError          a policy that names what does not exist
│   ├── PatternError         a pattern that RE2 refuses, or that is too large
│   ├── CaseError            a line of evaluation data that cannot be read
│   └── MissingExtra         an optional library is not installed
├── MessageError             this message cannot be accepted; nothing was stored
│   ├── EmptyMessage
│   ├── MessageTooLarge
│   ├── ForbiddenPart        a user's message holds a tool call
│   ├── UnknownToolCall      a tool result nobody waits for
│   ├── NobodyEligible       every agent is disabled, resting, or closed to the caller's roles
│   └── MessageBlocked       a guardrail refused it; that it did is stored, nothing of the message
├── SessionError             the session cannot do that now
│   ├── SessionMissing
│   ├── SessionExists
│   ├── SessionBusy          another message is being answered (policy `reject`)
│   ├── QueueFull            too many messages wait in this session
│   ├── InvocationMissing
│   └── StaleWriter          somebody else wrote since; the append was refused
├── StoreError               the place where things are kept has a problem
│   ├── StoreUnavailable     cannot be reached or is locked; may pass
│   ├── StoreFull            no space left; nothing half written
│   ├── StoreCorrupt         the file is damaged or is no database
│   ├── CursorInvalid        it is not of that list
│   └── SchemaNewer          a newer Turnwise wrote this database
├── ArtifactError
│   ├── ArtifactName         a name that could leave its place
│   └── ArtifactTooLarge
├── AgentError               an agent did not do what it should
│   ├── AgentFailed          it raised; the cause is chained and recorded
│   ├── AgentTimeout
│   ├── ToolFailed           a tool says why it could not; the model reads it
│   ├── FlowFailed           a task of a flow failed
│   ├── FlowStuck            tasks of a flow are left, and nobody can do them
│   └── TransferRefused      unknown, forbidden, or the floor was given away before
├── ModelError               a model gave no answer
│   ├── ModelUnavailable     overloaded, out of reach, too slow, over its rate; may pass
│   ├── ModelRefused         the provider does not take this request or this key; asking again is no use
│   └── ModelAnswerInvalid   what came is no answer, or after all retries not of the wanted kind
├── EncoderError             texts cannot be turned into vectors
├── AccessError              whoever asks may not
│   ├── NotAuthenticated     no credential, or none that counts
│   ├── Forbidden            a good credential, but not for this
│   └── TooMany              more than that credential or user may have in a time
├── RequestError             a request from outside that cannot be served as it is
│   ├── RequestInvalid       its body, path or parameters
│   ├── RequestTooLarge
│   ├── RequestTimeout       it did not come, or was not served, in time
│   ├── NothingHere          no such path, model, artifact, …
│   ├── WrongMethod          the path is there, but not for that
│   ├── NoSuchRange          a part of something that has no such part
│   ├── KeyReused            its Idempotency-Key came with another body before
│   ├── PreconditionFailed   what its If-Match names has changed since
│   ├── NotReady             this process is not, or not yet, able to serve
│   └── Closing              this process is being stopped
└── LimitReached             a limit of the run; `which` names it

Each class has a stable `code` (`branch.leaf`), the same on every wire. The message names the thing, the cause and the
fix; it never holds a secret or the text of a user's message.
"""

from typing import ClassVar


class TurnwiseError(Exception):
    """Base of all. `code` is stable; `fix` says what to do and may be empty."""

    code: ClassVar[str] = "turnwise"

    def __init__(self, problem: str, *, fix: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.problem} {self.fix}".rstrip()


class ConfigError(TurnwiseError):
    code = "config"


class ImportPathError(ConfigError):
    code = "config.import_path"


class TreeError(ConfigError):
    code = "config.tree"


class DuplicateAgent(TreeError):
    code = "config.duplicate_agent"


class TreeCycle(TreeError):
    code = "config.tree_cycle"


class AgentDefinitionError(ConfigError):
    code = "config.agent"


class FlowDefinitionError(ConfigError):
    code = "config.flow"


class PolicyError(ConfigError):
    code = "config.policy"


class PatternError(ConfigError):
    code = "config.pattern"


class CaseError(ConfigError):
    code = "config.case"


class MissingExtra(ConfigError):
    """An optional library is not installed: the message names the extra that brings it."""

    code = "config.missing_extra"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(
            f"{feature} needs an optional library that is not installed.",
            fix=f"Install it with: pip install 'turnwise[{extra}]'",
        )
        self.extra = extra


class MessageError(TurnwiseError):
    code = "message"


class EmptyMessage(MessageError):
    code = "message.empty"


class MessageTooLarge(MessageError):
    code = "message.too_large"


class ForbiddenPart(MessageError):
    code = "message.forbidden_part"


class UnknownToolCall(MessageError):
    code = "message.unknown_tool_call"


class NobodyEligible(MessageError):
    code = "message.nobody_eligible"


class MessageBlocked(MessageError):
    code = "message.blocked"


class SessionError(TurnwiseError):
    code = "session"


class SessionMissing(SessionError):
    code = "session.missing"


class SessionExists(SessionError):
    code = "session.exists"


class SessionBusy(SessionError):
    code = "session.busy"

    @classmethod
    def answering(cls, session: str) -> "SessionBusy":
        """The error for who does not want to wait until that session is free."""
        return cls(f"Session {session!r} is answering another message.", fix="Try again, or queue the message.")


class QueueFull(SessionError):
    code = "session.queue_full"


class InvocationMissing(SessionError):
    code = "session.invocation_missing"


class StaleWriter(SessionError):
    code = "session.stale_writer"


class StoreError(TurnwiseError):
    code = "store"


class StoreUnavailable(StoreError):
    code = "store.unavailable"


class StoreFull(StoreError):
    code = "store.full"


class StoreCorrupt(StoreError):
    code = "store.corrupt"


class CursorInvalid(StoreError):
    """Whoever asks for the next page named what no page gave; nothing is wrong with the store."""

    code = "store.cursor"


class SchemaNewer(StoreError):
    code = "store.schema_newer"


class ArtifactError(TurnwiseError):
    code = "artifact"


class ArtifactName(ArtifactError):
    code = "artifact.name"


class ArtifactTooLarge(ArtifactError):
    code = "artifact.too_large"


class AgentError(TurnwiseError):
    code = "agent"


class AgentFailed(AgentError):
    code = "agent.failed"


class AgentTimeout(AgentError):
    code = "agent.timeout"


class TransferRefused(AgentError):
    """The floor was not handed over. `allowed` lists the names that would have been accepted, in the tree's order."""

    code = "agent.transfer_refused"

    def __init__(self, problem: str, *, allowed: tuple[str, ...] = ()) -> None:
        fix = f"Allowed targets: {', '.join(allowed)}." if allowed else "No target is allowed here."
        super().__init__(problem, fix=fix)
        self.allowed = allowed


class ToolFailed(AgentError):
    """Raised by a tool to tell the model what went wrong, in words it can act on."""

    code = "agent.tool"


class FlowFailed(AgentError):
    code = "agent.flow_failed"


class FlowStuck(AgentError):
    """Tasks are left, and nobody who could do them can be reached."""

    code = "agent.flow_stuck"


class ModelError(TurnwiseError):
    code = "model"


class ModelUnavailable(ModelError):
    """`retry_after`: seconds that the provider asks to wait; None when it does not say."""

    code = "model.unavailable"

    def __init__(self, problem: str, *, fix: str = "", retry_after: float | None = None) -> None:
        super().__init__(problem, fix=fix)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    code = "model.refused"


class ModelAnswerInvalid(ModelError):
    code = "model.answer"


class EncoderError(TurnwiseError):
    """No vectors: a model that does not load, a function or a service that fails or answers with something else."""

    code = "encoder"


class LimitReached(TurnwiseError):
    """A limit of the run was reached; `which` is the field's name in `Limits`."""

    code = "limit"

    def __init__(self, which: str, problem: str, *, fix: str = "") -> None:
        super().__init__(problem, fix=fix or f"Raise limits.{which} if this is expected.")
        self.which = which


class AccessError(TurnwiseError):
    code = "access"


class NotAuthenticated(AccessError):
    """It says no more than that: not which part of a credential was wrong."""

    code = "access.unauthenticated"


class Forbidden(AccessError):
    """It depends on who asks and for what kind of thing, never on whether the thing exists."""

    code = "access.forbidden"


class TooMany(AccessError):
    """`retry_after`: seconds until it is worth asking again."""

    code = "access.too_many"

    def __init__(self, problem: str, *, fix: str = "", retry_after: float = 1.0) -> None:
        super().__init__(problem, fix=fix)
        self.retry_after = retry_after


class RequestError(TurnwiseError):
    """`where`: the place in the request, as a path of names and numbers; empty = the whole."""

    code = "request"

    def __init__(self, problem: str, *, fix: str = "", where: tuple[str | int, ...] = ()) -> None:
        super().__init__(problem, fix=fix)
        self.where = where


class RequestInvalid(RequestError):
    code = "request.invalid"


class RequestTooLarge(RequestError):
    code = "request.too_large"


class RequestTimeout(RequestError):
    code = "request.timeout"


class NothingHere(RequestError):
    code = "request.nothing_here"


class WrongMethod(RequestError):
    code = "request.method"


class NoSuchRange(RequestError):
    """`size`: how many bytes there are."""

    code = "request.range"

    def __init__(self, problem: str, *, fix: str = "", size: int = 0) -> None:
        super().__init__(problem, fix=fix)
        self.size = size


class KeyReused(RequestError):
    code = "request.key_reused"


class PreconditionFailed(RequestError):
    code = "request.precondition"


class NotReady(RequestError):
    code = "request.not_ready"


class Closing(RequestError):
    """This process takes nothing more: another one does, or this one when it is there again."""

    code = "request.closing"
