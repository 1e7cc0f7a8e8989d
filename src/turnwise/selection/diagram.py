"""Draws a policy and an agent tree as text or as a Mermaid diagram."""

from collections.abc import Iterator, Mapping
from typing import Literal

from turnwise.facts.tree import AgentTree
from turnwise.selection.policy import PolicySpec, StageSpec

Format = Literal["text", "mermaid"]

STAGES: Mapping[str, str] = {
    "clarify": "the user chooses between near candidates",
    "contextual": "the message, the conversation and the agents' texts together",
    "conversational": "the agent that the last answer names in a <next> tag",
    "default": "one fixed agent",
    "direct": "the agent that the caller names",
    "identity": "the lead agent",
    "iterative": "the next agent of a fixed order",
    "model": "a language model, between tied candidates",
    "patterns": "regular expressions of the agents",
    "resume": "the agent that spoke last, if it may continue",
    "semantic": "the nearest examples",
    "smalltalk": "the general agent, for greetings and thanks",
}
"""The basis of each built-in selector's decision."""
_OWNER = "owner of a tool result"
_ROOT = "the tree's root"


def draw_policy(policy: PolicySpec, form: Format) -> str:
    """Returns the stages in the order in which they are asked, and what follows if all abstain."""
    return "\n".join(_policy_mermaid(policy) if form == "mermaid" else _policy_text(policy))


def draw_tree(tree: AgentTree, form: Format) -> str:
    """Returns the agents below their parents, in the order of the tree."""
    return "\n".join(_tree_mermaid(tree) if form == "mermaid" else _tree_text(tree))


def tree_rows(tree: AgentTree, root: str, first: str = "", rest: str = "") -> Iterator[tuple[str, str]]:
    """Yields the name of an agent and of all agents below it, each with the prefix that draws the tree."""
    yield root, first
    children = tree.children(root)
    for number, child in enumerate(children, 1):
        last = number == len(children)
        yield from tree_rows(tree, child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _policy_text(policy: PolicySpec) -> Iterator[str]:
    """Yields the lines of a policy: its stages in order, the default, the segments."""
    yield f"policy {policy.name}"
    yield f"   {_OWNER}: always first"
    for number, stage in enumerate(policy.stages, 1):
        about = f": {STAGES[stage.selector]}" if stage.selector in STAGES else ""
        yield f"{number:2} {_title(stage)}{about}{_options(stage)}"
    yield f"   nobody chose: {policy.default or _ROOT}"
    for segment in policy.segments:
        default = f"; nobody chose: {segment.default}" if segment.default else ""
        yield f"   for {segment.label}: other options for {', '.join(segment.options) or 'no stage'}{default}"


def _policy_mermaid(policy: PolicySpec) -> Iterator[str]:
    """Yields the lines of a policy as a Mermaid flowchart."""
    yield "flowchart TD"
    yield f'  message(["message"]) --> owner{{{{"{_OWNER}"}}}}'
    before = "owner"
    for number, stage in enumerate(policy.stages, 1):
        yield f"  {before} -->|abstains| s{number}{{{{{_quoted(_title(stage) + _options(stage))}}}}}"
        before = f"s{number}"
    for each in ["owner", *(f"s{number}" for number in range(1, len(policy.stages) + 1))]:
        yield f"  {each} -->|chooses| chosen"
    yield f"  {before} -->|abstains| default[{_quoted(policy.default or _ROOT)}]"
    yield '  chosen(["the agent, with the reason"])'


def _tree_text(tree: AgentTree) -> Iterator[str]:
    for name, prefix in tree_rows(tree, tree.root):
        card = tree.card(name)
        about = f"  {card.description.splitlines()[0]}" if card.description else ""
        yield f"{prefix}{name} ({card.kind}{'' if card.enabled else ', disabled'}){about}"


def _tree_mermaid(tree: AgentTree) -> Iterator[str]:
    """Yields the lines of an agent tree as a Mermaid flowchart."""
    yield "flowchart TD"
    numbers = {name: number for number, (name, _) in enumerate(tree_rows(tree, tree.root))}
    for name, number in numbers.items():
        yield f"  a{number}[{_quoted(name)}]"
    for name, number in numbers.items():
        yield from (f"  a{number} --> a{numbers[child]}" for child in tree.children(name))


def _title(stage: StageSpec) -> str:
    return stage.selector if stage.name in {None, stage.selector} else f"{stage.name} ({stage.selector})"


def _options(stage: StageSpec) -> str:
    return f" [{', '.join(f'{key} {value}' for key, value in stage.options.items())}]" if stage.options else ""


def _quoted(text: str) -> str:
    """Returns a Mermaid label. Mermaid reads HTML entities without the ampersand, and Markdown in labels."""
    plain = "".join(each if each.isalnum() or each in " ._-,()'" else f"#{ord(each)};" for each in text)
    return f'"{plain}"'
