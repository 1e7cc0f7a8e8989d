"""What tests of decisions share: a tree, sessions in which somebody spoke or asked, and a decision in one call."""

from typing import Any

from turnwise.facts.content import Content, text_content
from turnwise.facts.events import Await
from turnwise.facts.selections import Selection, Verdict
from turnwise.facts.sessions import AuthorMark, Head, OpenInvocation
from turnwise.facts.tree import AgentCard, AgentTree, Pattern
from turnwise.ports.selector import SelectionRequest
from turnwise.selection.cascade import Cascade
from turnwise.selection.named import named_policy
from turnwise.selection.policy import PolicySpec, StageSpec


def card(name: str, *patterns: tuple[str, float], **fields: Any) -> AgentCard:
    found = tuple(Pattern(regex=regex, confidence=confidence) for regex, confidence in patterns)
    return AgentCard(**{"name": name, "parent": "root", "kind": "llm", "patterns": found, **fields})


TREE = AgentTree(
    [
        card("root", parent=None),
        card("orders", ("order", 0.8), ("where is my order", 0.95)),
        card("returns", ("return", 0.85)),
        card("staff", ("payroll", 0.9), roles=("employee",)),
        card("report", kind="sequential"),
        card("collect", parent="report"),
        card("expert", routable=False),
        card("retired", ("order", 1.0), enabled=False),
    ]
)
SPOKE = Head(authors={"returns": AuthorMark(spoke=4), "orders": AuthorMark(spoke=2)}, active_agent="returns")
ASKED = SPOKE.replace(
    invocations={"i": OpenInvocation(agent="returns", state="waiting", began=3, last=4, waits=(("returns", Await(id="w")),))}
)


def user(text: str) -> Content:
    return text_content(text, "user")


async def decide(
    text: str | Content = "", policy: str | PolicySpec = "default", *, tree: AgentTree = TREE, custom: Any = None, **facts: Any
) -> Selection:
    spec = named_policy(policy) if isinstance(policy, str) else policy
    message = user(text) if isinstance(text, str) else text
    return await Cascade(spec, tree, custom).decide(**{"head": Head(), "message": message, **facts})


def stages(selection: Selection) -> list[tuple[str, str]]:
    return [(verdict.selector, verdict.outcome) for verdict in selection.verdicts]


def policy_of(*selectors: str, **fields: Any) -> PolicySpec:
    return PolicySpec(stages=tuple(StageSpec(selector=each) for each in selectors), **fields)


class Own:
    """A selector whose answer the test gives; it remembers nothing but what it was asked."""

    name = "own"

    def __init__(self, tree: AgentTree, *, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[SelectionRequest] = []

    async def select(self, request: SelectionRequest) -> Verdict:
        self.asked.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]
