"""Builds HTML and SVG as text. Plain text is escaped; `Markup` is inserted unchanged."""

import html
import re

_ENTITIES_NEEDED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_VOID = frozenset({"meta", "br", "line", "rect", "circle", "path", "polyline", "polygon"})


class Markup(str):
    """Text that is already markup."""

    __slots__ = ()


Child = str | Markup | None


def tag(name: str, *children: Child, **attributes: object) -> Markup:
    """Returns an element. In attribute names, a trailing `_` is dropped and other `_` become `-`. None is left out."""
    named = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    given = "".join(f' {key}="{_text(_number(value))}"' for key, value in named.items())
    inner = joined(*children)
    if name in _VOID and not inner:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{inner}</{name}>")


def joined(*children: Child) -> Markup:
    """Concatenates the children; plain text is escaped."""
    return Markup("".join(child if isinstance(child, Markup) else _text(child) for child in children if child is not None))


def quoted(text: str, limit: int) -> Markup:
    """Returns a user's or agent's text, cut and isolated from the surrounding text direction."""
    return tag("bdi", text if len(text) <= limit else text[:limit].rstrip() + "…")


def _text(text: str) -> str:
    return html.escape(_ENTITIES_NEEDED.sub("\N{REPLACEMENT CHARACTER}", text), quote=True)


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)
