"""Continues a conversation: the active agent, the agents that may continue, and the selectors `Resume`, `ToolResult` and
`HoldOpenQuestion` (behaviours A2 to A5, A9 to A13). Pure.
"""

from collections.abc import Collection
from typing import Literal, NamedTuple

from turnwise.facts.content import Content
from turnwise.facts.errors import UnknownToolCall
from turnwise.facts.selections import Exclusion, Verdict
from turnwise.facts.sessions import AuthorMark, Head, OpenInvocation
from turnwise.facts.tree import AgentTree
from turnwise.ports.selector import SelectionRequest, Selector
from turnwise.selection.verdicts import abstained, chosen, shortened

Rule = Literal["tree", "adk"]
CONFIDENCE = 0.8
"""Confidence of a resumed conversation."""
ASKED_CONFIDENCE = 0.9
"""Confidence when the agent waits for a reply."""

_UNANSWERED = {"failed": "its last turn failed", "skipped": "its last turn ended without a word of its own"}

AWAITED_CONFIDENCE = 0.9
"""Default confidence that another agent needs while an agent waits for a reply."""


class Resume:
    """Resumes the last agent that spoke or received the conversation, if permitted; else the one before it, and so on.

    Reads the head's marks: one step per author, independent of the log's length. The verdict lists every author passed over,
    with the rule `unknown`, `not_resumable`, `forbidden`, `failed`, `skipped` or the rule that makes it ineligible. An agent
    that an earlier selector passed over as `failed` is not resumed for an earlier turn either.

    Args:
        rule: `tree`: function, remote and LLM agents may be resumed. An agent with an open question gets the reply even without
        permission, unless another agent spoke since; a composite is resumed only this way. `adk`: the agent and
            all agents above it must be LLM agents, and none may disallow the transfer to its parent. In both, the card's
            `resume: never` forbids. `always` overrides the agent's own permission and also counts turns without text; a
            forbidding agent above it still wins.
        only: `awaiting`: resume for an open question only.
        novelty: Novelty limit. Abstain, except for open questions, when an earlier selector judged a higher novelty; None =
            no limit.
        name: The stage's name.
    """

    def __init__(
        self,
        *,
        rule: Rule = "tree",
        only: Literal["awaiting"] | None = None,
        novelty: float | None = None,
        name: str = "resume",
    ) -> None:
        self.name = name
        self._rule: Rule = rule
        self._only = only
        self._novelty = novelty

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses the agent that waits for a reply, else the last speaker that may continue."""
        if request.occasion != "message":
            return abstained(self.name, "Only a user's message resumes a conversation.")
        question = open_question(request) if self._rule == "tree" or self._only else None
        if question is not None and question.agent in request.eligible:
            asker = next(agent for agent, wait in question.waits if wait.kind == "reply")  # the agent that receives the reply
            reason = f"{asker} asked the user and waits for the reply."
            return self._chosen(question.agent, reason, (), ASKED_CONFIDENCE)
        if self._only:
            return abstained(self.name, "Nobody who spoke last waits for a reply.")
        judged = max((each.novelty for each in request.verdicts if each.novelty is not None), default=0.0)
        if self._novelty is not None and judged > self._novelty:
            return abstained(self.name, f"Nobody who spoke seems right for it: {judged:.2f}, above {self._novelty:g}.")
        return self._scan(request)

    def _scan(self, request: SelectionRequest) -> Verdict:
        """Returns the verdict for the last speaker that may continue; records those that were passed over."""
        passed_over: list[Exclusion] = []
        failed = {each.agent: each for verdict in request.verdicts for each in verdict.passed_over if each.rule == "failed"}
        for claim in _claims(request.head, request.tree):
            if claim.unanswered:
                passed_over.append(Exclusion(agent=claim.author, rule=claim.unanswered, detail=_UNANSWERED[claim.unanswered]))
                continue
            obstacle = failed.get(claim.author) or why_not_resumed(claim.author, self._rule, request)
            if obstacle is None:
                others = tuple(each for each in passed_over if each.agent != claim.author)
                return self._chosen(claim.author, _reason(claim, others), others, CONFIDENCE)
            passed_over.append(obstacle)
        reason = "Nobody who spoke may be resumed." if passed_over else "Nobody has spoken yet."
        return abstained(self.name, reason, passed_over=tuple(passed_over))

    def _chosen(self, agent: str, reason: str, passed_over: tuple[Exclusion, ...], confidence: float) -> Verdict:
        return chosen(self.name, agent, method="resume", confidence=confidence, reason=reason, passed_over=passed_over)


class ToolResult:
    """Chooses the agent that made the tool call, or asked the question, which the message answers."""

    def __init__(self, *, name: str = "tool_result") -> None:
        self.name = name

    async def select(self, request: SelectionRequest) -> Verdict:
        """Chooses the agent that made the tool call, or asked the question, that the message answers."""
        try:
            owner = tool_result_owner(request.message, request.head)
            replies = owner is None and request.context.answers is not None
            owner = reply_owner(request.context.answers or "", request.head) if replies else owner
        except UnknownToolCall as problem:
            return abstained(self.name, problem.problem)
        if owner is None:
            return abstained(self.name, "The message holds no tool result.")
        agent = owner[1]
        if agent not in request.eligible:
            why = "may not be reached" if agent in request.tree else "is no longer in the tree"
            action = "asked" if replies else "made the tool call"
            return abstained(self.name, f"{shortened(agent)} {action}, but {why}.")
        if replies:
            reason = f"The message is the reply to a question that {agent} asked."
            return chosen(self.name, agent, method="reply", confidence=1.0, reason=reason)
        reason = f"The message holds the result of a tool call that {agent} made."
        return chosen(self.name, agent, method="tool_result", confidence=1.0, reason=reason)


class HoldOpenQuestion:
    """Wraps a selector and protects an open question.

    While an agent waits for a reply, the choice of another agent counts only with at least the confidence `awaited`.
    """

    def __init__(self, selector: Selector, *, awaited: float = AWAITED_CONFIDENCE) -> None:
        self._selector, self._awaited = selector, awaited

    @property
    def name(self) -> str:
        return self._selector.name

    @property
    def named_agents(self) -> tuple[str, ...]:
        """Agents named in the wrapped selector's configuration."""
        return tuple(getattr(self._selector, "named_agents", ()))

    async def select(self, request: SelectionRequest) -> Verdict:
        """Returns the selector's verdict; abstains when it would leave an open question without enough confidence."""
        verdict = await self._selector.select(request)
        question = open_question(request)
        if question is None or verdict.agent in (None, question.agent) or verdict.confidence >= self._awaited:
            return verdict
        if question.agent not in request.eligible:
            return verdict
        reason = f"{question.agent} waits for a reply, and {verdict.agent} is not sure enough: {verdict.confidence:.2f}."
        return abstained(
            verdict.selector, reason, confidence=verdict.confidence, candidates=verdict.candidates, novelty=verdict.novelty
        )


def open_question(request: SelectionRequest) -> OpenInvocation | None:
    """Returns the newest invocation that waits for a reply.

    None when there is none, or when an agent outside it has spoken since the question.
    """
    waiting = [
        open_
        for open_ in request.head.invocations.values()
        if open_.state == "waiting" and any(wait.kind == "reply" for _, wait in open_.waits)
    ]
    if not waiting:
        return None
    newest = max(waiting, key=lambda open_: open_.began)
    spoke = max((mark.spoke for mark in request.head.authors.values()), default=0)
    return newest if spoke <= newest.last else None


def why_not_resumed(author: str, rule: Rule, request: SelectionRequest) -> Exclusion | None:
    """Returns why the author may not continue the conversation; None when it may."""
    tree = request.tree
    if author not in tree:
        return Exclusion(agent=shortened(author), rule="unknown", detail="no agent has that name now")
    card = tree.card(author)
    if card.resume == "never":
        return Exclusion(agent=author, rule="not_resumable", detail="its card says never")
    if rule == "tree" and card.is_composite:
        return Exclusion(agent=author, rule="not_resumable", detail=f"it is a {card.kind} agent, and waits for no reply")
    if rule == "adk" and card.kind != "llm" and card.resume != "always":
        return Exclusion(agent=author, rule="not_resumable", detail=f"it is a {card.kind} agent, not an LLM agent")
    forbidden = _forbidden(author, rule, tree)
    if forbidden:
        return Exclusion(agent=author, rule="forbidden", detail=forbidden)
    if author not in request.eligible:
        why = next((each for each in request.excluded if each.agent == author), None)
        return why or Exclusion(agent=author, rule="not_eligible", detail="it may not be chosen here")
    return None


def tool_result_owner(message: Content, head: Head) -> tuple[str, str] | None:
    """Finds the invocation that waits for the message's tool results.

    Returns:
        The invocation's id, and the agent that made the first of these calls. None when the message has no tool results.

    Raises:
        UnknownToolCall: A result belongs to no open call, or the results belong to different invocations.
    """
    results = message.tool_results
    if not results:
        return None
    for result in results:
        if result.call_id not in head.calls:
            raise UnknownToolCall(
                f"Nobody waits for a result of the tool call {shortened(result.call_id)!r}.",
                fix="Send each result once, with the id of the call, while its invocation waits.",
            )
    calls = [head.calls[result.call_id] for result in results]
    if len({call.invocation_id for call in calls}) > 1:
        raise UnknownToolCall(
            "The message holds results for tool calls of different invocations.", fix="Send one message for each invocation."
        )
    return calls[0].invocation_id, calls[0].agent


def reply_owner(answers: str, head: Head) -> tuple[str, str]:
    """Returns the invocation that waits for a reply under this id, and the agent that asked.

    Raises:
        UnknownToolCall: No invocation waits under this id.
    """
    for invocation_id, agent, wait in head.waiting():
        if (wait.id, wait.kind) == (answers, "reply"):
            return invocation_id, agent
    raise UnknownToolCall(
        f"Nobody waits for a reply to {shortened(answers)!r}.", fix="Answer each question once, while its invocation waits."
    )


class _Claim(NamedTuple):
    """An author's claim to be resumed. `unanswered` names why this turn gives no claim; empty when it gives one."""

    sequence: int
    handed: bool
    author: str
    unanswered: str = ""


def _claims(head: Head, tree: AgentTree) -> list[_Claim]:
    """Returns the authors' claims, newest first. After a transfer, the receiver comes before the sender (behaviour A11)."""
    claims = []
    for author, mark in head.authors.items():
        claim = _newest_claim(author, mark, always=author in tree and tree.card(author).resume == "always")
        if claim.sequence:
            claims.append(claim)
        # Later failed or skipped turns give no claim, but appear in the record (A10, A13).
        if mark.failed > claim.sequence:
            claims.append(_Claim(mark.failed, False, author, "failed"))
        if mark.skipped > claim.sequence:
            claims.append(_Claim(mark.skipped, False, author, "skipped"))
    return sorted(claims, key=lambda claim: (-claim.sequence, not claim.handed, claim.author))


def _newest_claim(author: str, mark: AuthorMark, *, always: bool) -> _Claim:
    """Returns the newest claim of this author; sequence 0 when there is none."""
    spoke = max(mark.spoke, mark.skipped) if always else mark.spoke
    # A transfer is used up by a later failed or silent turn, but not by a crash (A10, A11).
    had_its_turn = max(mark.failed, 0 if always else mark.skipped)
    handed = mark.handed if mark.handed > had_its_turn else 0
    return _Claim(max(spoke, handed), handed > spoke, author)


def _forbidden(author: str, rule: Rule, tree: AgentTree) -> str:
    """Describes the agent on the chain up to the root that forbids resuming; empty when none does."""
    for name in tree.chain(author):
        card = tree.card(name)
        is_own = name == author
        if card.disallow_transfer_to_parent and not (is_own and card.resume == "always"):
            return f"{name} disallows the transfer to its parent"
        if not is_own and rule == "adk" and card.kind != "llm":
            return f"{name} above it is a {card.kind} agent, not an LLM agent"
        if not is_own and rule == "tree" and card.is_composite:
            return f"{name} above it is a {card.kind} agent and runs it"
    return ""


def _reason(claim: _Claim, passed_over: tuple[Exclusion, ...]) -> str:
    """Returns the reason of a resumption, with the agents that may not continue."""
    action = "was handed the floor and has not answered" if claim.handed else "spoke last"
    names = list(dict.fromkeys(each.agent for each in passed_over))
    if not names:
        return f"{claim.author} {action}."
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{claim.author} {action} of those who may go on; {', '.join(names[:3])}{more} may not."


class ConversationState(NamedTuple):
    """The agents' places in a conversation. Only eligible agents are listed."""

    active: str | None
    """The agent that has the conversation; None when there is none or it may not continue."""
    visited: tuple[str, ...]
    """Other agents that spoke and may continue, most recent first."""
    awaiting: str | None
    """The agent that waits for a reply."""
    passed_over: tuple[Exclusion, ...] = ()
    """The agent that had the conversation but may not continue, with the cause."""


def conversation_state(request: SelectionRequest) -> ConversationState:
    """Derives the conversation state from the session's head. The message does not matter."""
    head = request.head
    spoke = sorted(((mark.spoke, name) for name, mark in head.authors.items() if mark.spoke), reverse=True)
    last = head.active_agent
    # After a transfer, the receiver has the conversation unless it answered or failed since; the sender does not.
    handed = max(((mark.handed, name) for name, mark in head.authors.items() if mark.handed > mark.failed), default=None)
    if handed and handed[0] > (spoke[0][0] if spoke else 0) and handed[0] > head.authors[handed[1]].skipped:
        last = handed[1]
    waiting = _waiting(request)
    why_not = None if last is None or head.offered else _obstacle(last, request, waiting)
    active = None if last is None or head.offered or why_not else acting_agent(last, request)
    passed_over = () if why_not is None else (why_not,)
    visited = [_continuing(name, request, waiting) for _, name in spoke]
    others = tuple(dict.fromkeys(name for name in visited if name is not None and name != active))
    return ConversationState(active, others, next(iter(waiting), None), passed_over)


def acting_agent(name: str | None, request: SelectionRequest) -> str | None:
    """Returns the agent itself if eligible, else the nearest eligible composite above it, which runs it.

    None when neither exists.
    """
    if name is None or name not in request.tree:
        return None
    if name in request.eligible:
        return name
    above = request.tree.chain(name)[1:]
    return next((each for each in above if request.tree.card(each).is_composite and each in request.eligible), None)


def continuing_agent(name: str | None, request: SelectionRequest) -> str | None:
    """Returns the agent, or the composite that runs it, if it may continue the conversation.

    None otherwise: earlier messages then do not count in its favour.
    """
    return _continuing(name, request, _waiting(request))


def _continuing(name: str | None, request: SelectionRequest, waiting: Collection[str]) -> str | None:
    if name is None or _obstacle(name, request, waiting) is not None:
        return None
    return acting_agent(name, request)


def _waiting(request: SelectionRequest) -> tuple[str, ...]:
    """Returns the agents that wait for a reply, or the composites that run them, in the head's order."""
    acting = (acting_agent(agent, request) for _, agent, wait in request.head.waiting() if wait.kind == "reply")
    return tuple(dict.fromkeys(name for name in acting if name is not None))


def _obstacle(name: str, request: SelectionRequest, waiting: Collection[str]) -> Exclusion | None:
    """Returns why the agent may not continue, by the rules of `resume`; None when it may.

    An agent that waits for a reply may continue, even without permission. An agent that failed since it spoke may not (A10),
    nor may a composite that has ended (A3).
    """
    acting = acting_agent(name, request)
    if acting is not None and acting in waiting:
        return None
    mark = request.head.authors.get(name)
    # Before the rules of routing: `resume` goes on with agents that are not routed to, and has to know of it.
    if name in request.tree and mark is not None and mark.failed > mark.spoke:
        return Exclusion(agent=name, rule="failed", detail="its last turn failed")
    if acting is None:
        return _ineligible_reason(name, request)
    return why_not_resumed(acting, "tree", request)


def _ineligible_reason(name: str, request: SelectionRequest) -> Exclusion:
    if name not in request.tree:
        return Exclusion(agent=shortened(name), rule="unknown", detail="no agent has that name now")
    why = next((each for each in request.excluded if each.agent == name), None)
    return why or Exclusion(agent=name, rule="not_eligible", detail="it may not be chosen here")
