"""The tree of agents as a drawing, in the DOT language. Pure."""

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Colors(NamedTuple):
    ground: str
    line: str
    text: str
    marked: str


LIGHT = Colors("#ffffff", "#80868b", "#202124", "#69CB87")
DARK = Colors("#333537", "#cccccc", "#ffffff", "#0F5223")


def dot_of(children: Mapping[str, Collection[str]], root: str, marked: str | None = None, *, dark: bool = False) -> str:
    """The agents from `root` on, with who is below whom. marked: the one that stands out."""
    colors = DARK if dark else LIGHT
    lines = [
        "digraph agents {",
        f'rankdir=LR; bgcolor="{colors.ground}";',
        f'node [shape=box, style="rounded", color="{colors.line}", fontcolor="{colors.text}"];',
        f'edge [color="{colors.line}", arrowhead=none];',
    ]
    below, seen = [root], set[str]()
    while below:
        name = below.pop(0)
        if name in seen or name not in children:
            continue
        seen.add(name)
        stands_out = f' [style="rounded,filled", fillcolor="{colors.marked}"]' if name == marked else ""
        lines.append(f"{_quoted(name)}{stands_out};")
        lines += [f"{_quoted(name)} -> {_quoted(child)};" for child in children[name]]
        below += children[name]
    return "\n".join([*lines, "}"])


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
