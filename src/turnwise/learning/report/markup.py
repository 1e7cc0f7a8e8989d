"""HTML and SVG as text. Whatever comes in as text goes out escaped; only `Markup` is taken as it is."""

import html
import re

_ENTITIES_NEEDED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_VOID = frozenset({"meta", "br", "line", "rect", "circle", "path", "polyline", "polygon"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Child = str | Markup | None


def tag(name: str, *children: Child, **attributes: object) -> Markup:
    """An element. Attributes: `class_` is class, `_` stands for `-`; those that are None are left out, numbers are rounded."""
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    given = "".join(f' {key}="{_text(_number(value))}"' for key, value in named.items())
    inner = joined(*children)
    if name in _VOID and not inner:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{inner}</{name}>")


def joined(*children: Child) -> Markup:
    """One after the other; text is escaped."""
    return Markup("".join(child if isinstance(child, Markup) else _text(child) for child in children if child is not None))


def quoted(text: str, limit: int) -> Markup:
    """What somebody wrote: cut, and kept from changing the direction of what stands around it."""
    return tag("bdi", text if len(text) <= limit else text[:limit].rstrip() + "…")


def _text(text: str) -> str:
    return html.escape(_ENTITIES_NEEDED.sub("\N{REPLACEMENT CHARACTER}", text), quote=True)


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
