"""Every error Turnwise raises, as one tree. Catch the branch that you can act on.

TurnwiseError
├── ConfigError              the configuration is wrong; nothing was started
│   ├── ImportPathError      an import path that does not import
│   ├── TreeError            the agents do not form one tree
│   │   ├── DuplicateAgent   two agents share a name, or one agent is in two places
│   │   └── TreeCycle        an agent is below itself
│   ├── AgentDefinitionError a card or a function is no valid agent
│   ├── FlowDefinitionError  the tasks are no valid flow
│   ├── PolicyError          a policy refers to something that does not exist
│   ├── PatternError         RE2 rejects a pattern, or it is too large
│   ├── CaseError            a line of evaluation data cannot be read
│   ├── EngineError          the engine cannot be reached or used
│   └── MissingExtra         an optional library is not installed
├── DefinitionError          a definition of an agent or a policy cannot be stored or served; nothing was changed
│   ├── DefinitionInvalid    it has mistakes; `problems` lists them, each with a code of its own
│   ├── DefinitionConflict   another writer changed it first; names both versions
│   ├── DefinitionExists     a new definition has the name of another one
│   ├── DefinitionSetChanged other definitions changed while these were checked
│   ├── DefinitionOutOfBounds a figure of a version's trial misses a bound
│   ├── DefinitionMissing    there is no such definition, or no such version
│   └── DefinitionNewer      a newer Turnwise wrote it; it is kept, but not served here
├── MessageError             this message cannot be accepted; nothing was stored
│   ├── EmptyMessage
│   ├── MessageTooLarge
│   ├── ForbiddenPart        a user's message holds a tool call
│   ├── UnknownToolCall      no agent waits for this tool result
│   ├── NobodyEligible       every agent is disabled, unavailable, or closed to the caller's roles
│   └── MessageBlocked       a guardrail blocked it; the refusal is stored, the message is not
├── SessionError             the session does not allow this now
│   ├── SessionMissing
│   ├── SessionExists
│   ├── SessionBusy          another message is being answered (policy `reject`)
│   ├── QueueFull            too many messages wait in this session
│   ├── SessionFull          its log has reached the limit of events or bytes
│   ├── StateFull            its state, or the user's, has reached the limit of bytes
│   ├── UserOnHold           a legal hold prevents the deletion of the user's data
│   ├── InvocationMissing
│   └── StaleWriter          another writer wrote first; the append was refused
├── StoreError               the store has a problem
│   ├── StoreUnavailable     unreachable or locked; may pass
│   ├── StoreFull            no space left; nothing was partly written
│   ├── StoreCorrupt         the file is damaged or is no database
│   ├── CursorInvalid        the cursor does not belong to this list
│   └── SchemaNewer          a newer Turnwise wrote this database
├── ArtifactError
│   ├── ArtifactName         a name that could escape its folder
│   └── ArtifactTooLarge
├── AgentError               an agent failed
│   ├── AgentFailed          it raised; the cause is chained and recorded
│   ├── AgentTimeout
│   ├── RevisionUnavailable  the agents that an invocation began with cannot be made any more
│   ├── ToolFailed           a tool failed; the model reads the reason
│   ├── FlowFailed           a task of a flow failed
│   ├── FlowStuck            a flow has open tasks, but no available agent for them
│   └── TransferRefused      the target is unknown or forbidden, or a transfer was made before
├── ModelError               a model gave no answer
│   ├── ModelUnavailable     overloaded, unreachable, too slow, or rate limited; may pass
│   ├── ModelRefused         the provider rejects this request or key; a retry does not help
│   └── ModelAnswerInvalid   the answer is malformed, or of the wrong type after all retries
├── EncoderError             texts cannot be turned into vectors
├── MemoryProblem            an entry of a memory cannot be stored
│   └── MemoryInvalid        it is empty, too long, or of an unknown kind
├── AccessError              the caller has no access
│   ├── NotAuthenticated     no valid credential
│   ├── Forbidden            a valid credential without this permission
│   └── TooMany              the rate limit of the credential or user
├── UserLimitReached         the user has as much as one user may have; other users go on
│   ├── StorageUsed          sessions, memory and artifacts together
│   ├── SessionsUsed         the number of sessions
│   └── ForksUsed            the number of sessions that are forks
├── RequestError             the request cannot be served as it is
│   ├── RequestInvalid       its body, path or parameters
│   ├── RequestTooLarge
│   ├── RequestTimeout       it was not received, or not served, in time
│   ├── NothingHere          no such path, model, artifact, …
│   ├── WrongMethod          the path exists, but not with this method
│   ├── NoSuchRange          the requested range does not exist
│   ├── KeyReused            the Idempotency-Key was used with another body
│   ├── PreconditionFailed   the resource has changed since its If-Match
│   ├── PreconditionRequired the request has to say with If-Match which version it changes
│   ├── NotReady             this process cannot serve, or not yet
│   └── Closing              this process is shutting down; another one, or its next start, accepts requests
└── LimitReached             a limit of the run; `which` names it

Each has a stable `code`, the same in every protocol. The message names the thing, the cause and the fix, but no user's text.
"""

from collections.abc import Sequence
from typing import ClassVar

from turnwise.facts.hints import install_hint


class TurnwiseError(Exception):
    """Base class of all errors. `code` is stable; `fix` says what to do and may be empty."""

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


class EngineError(ConfigError):
    code = "config.engine"


class MissingExtra(ConfigError):
    code = "config.missing_extra"

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an optional library that is not installed.", fix=install_hint([extra]))
        self.extra = extra


class DefinitionError(TurnwiseError):
    code = "definition"


class DefinitionInvalid(DefinitionError):
    code = "definition.invalid"

    def __init__(self, problem: str, *, fix: str = "", problems: Sequence[TurnwiseError] = ()) -> None:
        super().__init__(problem, fix=fix)
        self.problems: Sequence[TurnwiseError] = tuple(problems) or (self,)


class DefinitionConflict(DefinitionError):
    """`expected` and `current` are versions, 0 = none. A client of the gateway knows them only from the message."""

    code = "definition.conflict"

    def __init__(self, problem: str, *, fix: str = "", expected: int = 0, current: int = 0) -> None:
        super().__init__(problem, fix=fix)
        self.expected, self.current = expected, current


class DefinitionExists(DefinitionError):
    code = "definition.exists"


class DefinitionSetChanged(DefinitionError):
    code = "definition.set_changed"


class DefinitionOutOfBounds(DefinitionError):
    code = "definition.out_of_bounds"


class DefinitionMissing(DefinitionError):
    code = "definition.missing"


class DefinitionNewer(DefinitionError):
    code = "definition.newer"


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
        """Returns the error for a caller that does not wait for a busy session."""
        return cls(f"Session {session!r} is answering another message.", fix="Try again, or queue the message.")


class QueueFull(SessionError):
    code = "session.queue_full"


class SessionFull(SessionError):
    code = "session.full"


class StateFull(SessionError):
    code = "session.state_full"


class UserOnHold(SessionError):
    code = "session.user_on_hold"


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


class RevisionUnavailable(AgentError):
    code = "agent.revision"


class TransferRefused(AgentError):
    """A transfer was refused. `allowed` lists the names of allowed targets, in the tree's order."""

    code = "agent.transfer_refused"

    def __init__(self, problem: str, *, allowed: tuple[str, ...] = ()) -> None:
        fix = f"Allowed targets: {', '.join(allowed)}." if allowed else "No target is allowed here."
        super().__init__(problem, fix=fix)
        self.allowed = allowed


class ToolFailed(AgentError):
    code = "agent.tool"


class FlowFailed(AgentError):
    code = "agent.flow_failed"


class FlowStuck(AgentError):
    code = "agent.flow_stuck"


class ModelError(TurnwiseError):
    code = "model"


class ModelUnavailable(ModelError):
    """`retry_after`: the delay in seconds that the provider asks for; None when it gives none."""

    code = "model.unavailable"

    def __init__(self, problem: str, *, fix: str = "", retry_after: float | None = None) -> None:
        super().__init__(problem, fix=fix)
        self.retry_after = retry_after


class ModelRefused(ModelError):
    code = "model.refused"


class ModelAnswerInvalid(ModelError):
    code = "model.answer"


class MemoryProblem(TurnwiseError):
    code = "memory"


class MemoryInvalid(MemoryProblem):
    code = "memory.invalid"


class EncoderError(TurnwiseError):
    code = "encoder"


class LimitReached(TurnwiseError):
    """A limit of the run was reached. `which` is the field's name in `Limits`."""

    code = "limit"

    def __init__(self, which: str, problem: str, *, fix: str = "") -> None:
        super().__init__(problem, fix=fix or f"Raise limits.{which} if this is expected.")
        self.which = which


class AccessError(TurnwiseError):
    code = "access"


class NotAuthenticated(AccessError):
    """The credential is missing or invalid. The message never says which part of it was wrong."""

    code = "access.unauthenticated"


class Forbidden(AccessError):
    """The credential lacks the permission. Depends on the kind of resource, never on whether it exists."""

    code = "access.forbidden"


class TooMany(AccessError):
    """`retry_after`: the delay in seconds before a retry can succeed."""

    code = "access.too_many"

    def __init__(self, problem: str, *, fix: str = "", retry_after: float = 1.0) -> None:
        super().__init__(problem, fix=fix)
        self.retry_after = retry_after


class UserLimitReached(TurnwiseError):
    code = "user"


class StorageUsed(UserLimitReached):
    code = "user.storage"


class SessionsUsed(UserLimitReached):
    code = "user.sessions"


class ForksUsed(UserLimitReached):
    code = "user.forks"


class RequestError(TurnwiseError):
    """`where`: the path of names and numbers to the problem in the request; empty means the whole request."""

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
    """`size`: the size of the resource in bytes."""

    code = "request.range"

    def __init__(self, problem: str, *, fix: str = "", size: int = 0) -> None:
        super().__init__(problem, fix=fix)
        self.size = size


class KeyReused(RequestError):
    code = "request.key_reused"


class PreconditionFailed(RequestError):
    code = "request.precondition"


class PreconditionRequired(RequestError):
    code = "request.precondition_required"


class NotReady(RequestError):
    code = "request.not_ready"


class Closing(RequestError):
    code = "request.closing"
