"""Builds the documentation site: copies the pages, generates the reference, and runs the site generator.

python website/build.py OUT            the pages and the site below OUT, strictly: a dead link or anchor is an error
python website/build.py OUT --serve    the same, served with reload at http://127.0.0.1:8080
"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from reference import command_line, configuration, http, python

ROOT = Path(__file__).resolve().parent.parent
DOCS, MARKER = ROOT / "docs", "<!-- generated -->"
GENERATED = {"python": python.page, "cli": command_line.page, "http": http.page, "configuration": configuration.page}
"""The pages below docs/reference, each with the function that makes what follows its marker."""
WHOLE = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
"""Pages outside docs/, with their names on the site."""
ADDRESS = "127.0.0.1:8080"
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def main() -> int:
    """Builds the site; returns the exit code of the site generator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="an empty or new folder")
    parser.add_argument("--serve", action="store_true")
    given = parser.parse_args()
    out: Path = given.out.resolve()
    assemble(out)
    command = [sys.executable, "-m", "zensical"]
    if given.serve:
        return subprocess.call([*command, "serve", "-f", "mkdocs.yml", "-a", ADDRESS], cwd=out)
    return subprocess.call([*command, "build", "-f", "mkdocs.yml", "--strict"], cwd=out)


def assemble(out: Path) -> None:
    """Writes the configuration and all pages below `out`."""
    pages = out / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(DOCS, pages)
    for name, place in WHOLE.items():
        shutil.copy(ROOT / name, pages / place)
    shutil.copy(ROOT / "website" / "site.css", pages)
    for name, page in GENERATED.items():
        file = pages / "reference" / f"{name}.md"
        file.write_text(file.read_text("utf-8").partition(MARKER)[0] + page(), "utf-8")
    for file in pages.rglob("*.md"):
        file.write_text(with_site_links(file.read_text("utf-8"), file.relative_to(pages).as_posix()), "utf-8")
    settings = (ROOT / "website" / "mkdocs.yml").read_text("utf-8")
    (out / "mkdocs.yml").write_text(settings.replace("@SOURCE@", str(ROOT / "src")), "utf-8")


def with_site_links(text: str, page: str) -> str:
    """Returns the page with links for the site: to pages outside docs/, and to source files, which are not on the site."""

    def replaced(link: re.Match[str]) -> str:
        label, target = link.groups()
        path, hash_, anchor = target.partition("#")
        if re.match(r"[a-z]+:", path) or not path:
            return link[0]
        source = next((name for name, place in WHOLE.items() if place == page), None)
        start = ROOT if source else (DOCS / page).parent
        found = (start / path).resolve()
        if not found.is_relative_to(ROOT) or found.is_relative_to(DOCS):
            return link[0] if source is None else f"[{label}]({found.relative_to(DOCS).as_posix()}{hash_}{anchor})"
        place = WHOLE.get(found.relative_to(ROOT).as_posix())
        if place is None:
            name = found.relative_to(ROOT).as_posix()
            return f"{label}" if name in label else f"{label} (`{name}` in the source)"
        return f"[{label}]({'../' * page.count('/')}{place}{hash_}{anchor})"

    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in _parts(text))


def _parts(text: str) -> Iterator[str]:
    """Yields the text in parts, each a whole code block or none."""
    end = 0
    for block in _FENCE.finditer(text):
        yield text[end : block.start()]
        yield block[0]
        end = block.end()
    yield text[end:]


if __name__ == "__main__":
    sys.exit(main())
