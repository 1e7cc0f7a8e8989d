"""Draws the pictures of the documentation as SVG: `python website/pictures.py` writes docs/pictures.

Each picture has its own background, so it is readable on light and dark pages. It has no script, and a font that everybody has.
"""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from turnwise.selection.diagram import STAGES
from turnwise.selection.named import NAMED

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
_STYLE = (
    ".b{fill:#fafbff;stroke:#c9d0e4}.n{fill:#fff;stroke:#5c6bc0;stroke-width:1.5}.s{fill:#e8eaf6;stroke:#5c6bc0;stroke-width:1.5}"
    ".y{fill:#e6f4ea;stroke:#2e7d32;stroke-width:1.5}text{font:14px system-ui,sans-serif;fill:#1a237e}"
    ".d{font-size:12px;fill:#48507a}.a{stroke:#5c6bc0;stroke-width:1.5;fill:none;marker-end:url(#h)}"
    ".bar{fill:#9fa8da}.own{fill:#3949ab}"
    "@media(prefers-color-scheme:dark){.b{fill:#1e2233;stroke:#3a4160}.n{fill:#272c42;stroke:#9fa8da}.s{fill:#30375a;stroke:#9fa8da}"
    ".y{fill:#23402b;stroke:#81c784}text{fill:#e8eaf6}.d{fill:#b6bede}.a{stroke:#9fa8da}.bar{fill:#5c6bc0}.own{fill:#9fa8da}"
    ".h{fill:#9fa8da}}"
)
_HEAD = (
    '<defs><marker id="h" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
    '<path class="h" d="M0 0L8 4L0 8z" fill="#5c6bc0"/></marker></defs>'
)


class _Picture:
    """Collects shapes; coordinates are pixels from the upper left corner."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"><title>{escape(title)}</title>',
            f"<style>{_STYLE}</style>{_HEAD}",
            f'<rect class="b" x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10"/>',
        ]

    def box(self, x: int, y: int, width: int, height: int, lines: Sequence[str], kind: str = "n") -> None:
        """A box with centered lines; the first one is the title."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="7"/>')
        top = y + height / 2 - (len(lines) - 1) * 9 + 5
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + 18 * number, line, "d" if number else "", "middle")

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        style = f' class="{kind}"' if kind else ""
        self._parts.append(f'<text{style} x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, *points: tuple[int, int]) -> None:
        path = "L".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path class="a" d="M{path}"/>')

    def bar(self, x: int, y: int, width: float, kind: str) -> None:
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width:g}" height="22" rx="3"/>')

    def __str__(self) -> str:
        return "\n".join([*self._parts, "</svg>", ""])


def house() -> str:
    """The parts that a message meets."""
    picture = _Picture(760, 300, "The house: protocols, the runner with the policy, the agents, the store")
    picture.box(
        20,
        30,
        150,
        240,
        ["Protocols", "Turnwise's API", "OpenAI", "A2A · AG-UI · MCP", "ADK · graph-chat", "Python · terminal"],
    )
    picture.box(230, 30, 200, 110, ["Policy", "who answers next?", "rules, patterns, meaning,", "the conversation"], "s")
    picture.box(230, 190, 200, 80, ["Runner", "one message through:", "store, decide, run, store"])
    picture.box(
        500, 30, 240, 110, ["Agents", "functions · language models", "flows · teams", "other frameworks · remote agents"]
    )
    picture.box(
        500, 190, 240, 80, ["Store: SQLite or PostgreSQL", "messages, decisions with reasons,", "answers, state, files"]
    )
    picture.arrow((170, 230), (228, 230))
    picture.arrow((300, 190), (300, 142))
    picture.arrow((360, 140), (360, 188))
    picture.arrow((430, 210), (465, 210), (465, 85), (498, 85))
    picture.arrow((430, 240), (498, 240))
    return str(picture)


def message() -> str:
    """A message's way through one turn."""
    picture = _Picture(
        760, 170, "A message is stored, decided, stored with the decision, answered, and stored with the end of the turn"
    )
    steps = [
        ("1 Accept", "guardrails,", "stored in the inbox", "n"),
        ("2 Decide", "eligible agents,", "then the policy", "s"),
        ("3 Commit", "message, decision,", "lease", "y"),
        ("4 Run", "the agent answers,", "asks or transfers", "n"),
        ("5 Commit", "answer and end,", "lease released", "y"),
    ]
    for number, (title, first, second, kind) in enumerate(steps):
        x = 20 + number * 147
        picture.box(x, 40, 132, 90, [title, first, second], kind)
        if number:
            picture.arrow((x - 15, 85), (x - 2, 85))
    return str(picture)


def cascade() -> str:
    """The stages of the policy `default`, in their order."""
    stages = NAMED["default"].stages
    height = 120 + 46 * len(stages)
    picture = _Picture(760, height, "The policy default: the stages are asked in order until one chooses")
    picture.box(20, 20, 520, 34, ["owner of a tool result: always first"], "s")
    for number, stage in enumerate(stages):
        y = 66 + 46 * number
        name = stage.selector if stage.name in {None, stage.selector} else f"{stage.name} ({stage.selector})"
        picture.box(20, y, 520, 34, [f"{name}: {STAGES[stage.selector]}"], "n")
        picture.arrow((280, y - 12), (280, y - 2))
        picture.arrow((540, y + 17), (600, y + 17))
    y = 66 + 46 * len(stages)
    picture.box(20, y, 520, 34, ["nobody chose: the root agent"], "s")
    picture.arrow((280, y - 12), (280, y - 2))
    picture.arrow((540, y + 17), (600, y + 17))
    picture.box(602, 66, 138, y - 32, ["the agent,", "with method,", "confidence,", "reason"], "y")
    return str(picture)


def decision() -> str:
    """The fields of a decision, explained."""
    rows = [
        ("agent", "orders", "the agent that answers"),
        ("method", "contextual_route", "how it was chosen"),
        ("confidence", "0.92", "from 0 to 1"),
        ("reason", "new request, nearest example …", "the same in words"),
        ("verdicts", "direct, choice, patterns, contextual", "what each stage said, with scores"),
        ("excluded", "audit: role", "agents that could not be chosen, and the rule"),
        ("policy, fingerprint", "default, cb61f20f…", "equal fingerprints are comparable"),
        ("label", "billing", "the agent that would have been right, if somebody says so"),
    ]
    picture = _Picture(760, 50 + 34 * len(rows), "A decision record and the meaning of its fields")
    for number, (field, value, meaning) in enumerate(rows):
        y = 46 + 34 * number
        picture.text(24, y, field)
        picture.text(180, y, value, "d")
        picture.text(420, y, meaning, "d")
    return str(picture)


ACCURACY = (
    ("semantic-router 1.1.1", 85.4),
    ("nearest centroid", 91.7),
    ("TF-IDF, linear classifier", 92.8),
    ("the method of Turnwise", 96.0),
)


def accuracy() -> str:
    """Right agent on CLINC150 with all examples."""
    picture = _Picture(760, 60 + 36 * len(ACCURACY), "Right agent on CLINC150, all examples, in percent")
    picture.text(24, 32, "Right agent on CLINC150, all examples; bars begin at 80 %", "d")
    for number, (name, share) in enumerate(ACCURACY):
        y = 48 + 36 * number
        picture.text(24, y + 16, name)
        picture.bar(230, y, (share - 80) * 25, "own" if number == len(ACCURACY) - 1 else "bar")
        picture.text(240 + (share - 80) * 25, y + 16, f"{share} %")
    return str(picture)


def pictures() -> Iterator[tuple[str, str]]:
    """Yields file names and contents."""
    for draw in (house, message, cascade, decision, accuracy):
        yield f"{draw.__name__}.svg", draw()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pictures():
        (FOLDER / name).write_text(text, "utf-8")
