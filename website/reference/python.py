"""The public Python names, by face."""

import importlib
from collections.abc import Iterator

FACES = (
    "turnwise",
    *(
        f"turnwise.{name}"
        for name in (
            "agents", "client", "content", "errors", "flows", "gateway", "guardrails", "models", "selection", "stores",
            "telemetry", "testing", "tools", "transcript",
        )
    ),
)  # fmt: skip


def page() -> str:
    """Returns a section for each face with the documentation of its names, once: a name of two faces is listed in both."""
    return "\n".join(_sections())


def _sections() -> Iterator[str]:
    shown: dict[int, str] = {}
    for face in FACES:
        module = importlib.import_module(face)
        yield f"\n## `{face}` {{ #{face.replace('.', '-')} }}\n"
        yield f"{(module.__doc__ or '').strip()}\n"
        again = []
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            if id(thing) in shown:
                again.append(f"`{name}`")
                continue
            shown[id(thing)] = name
            home = getattr(thing, "__module__", None)
            path = f"{home}.{name}" if _is_at(home, name, thing) else f"{face}.{name}"
            yield f"::: {path}\n    options: {{heading_level: 3, show_root_heading: true, show_root_full_path: false}}\n"
        if again:
            yield f"Also here, described above: {', '.join(again)}.\n"


def _is_at(home: str | None, name: str, thing: object) -> bool:
    return home is not None and home.startswith("turnwise") and getattr(importlib.import_module(home), name, None) is thing
