"""The console: a static page that calls the gateway's REST API. It has no right that its caller does not have.

Its assets are served under a path with their version, so that browsers keep them for good.
"""

import gzip
import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import NamedTuple

INDEX, ASSETS, PAGES = "index.html", "assets", "pages/"
_IMPORT = re.compile(rb'^import .* from "\./([a-z]+\.js)"', re.MULTILINE)
MEDIA_TYPES: Mapping[str, str] = MappingProxyType(
    {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
)


class Asset(NamedTuple):
    """A file as it is served."""

    body: bytes
    compressed: bytes
    """The body, compressed with gzip."""
    media_type: str


class Shell(NamedTuple):
    """The page and its assets."""

    template: str
    assets: Mapping[str, Asset]
    """The assets by their path below the version."""
    version: str
    """A digest of all files."""

    def page(self, depth: int, gateway: str | None = None, path: str = "") -> str:
        """Returns the page with links that are relative, because a proxy may serve the console below another path.

        Args:
            depth: The number of slashes in the page's path after the console's root.
            gateway: The gateway's URL; None if the gateway serves the page.
            path: The path after the console's root; its scripts are loaded with those of the frame.
        """
        root = "../" * depth or "./"
        assets = f"{root}{ASSETS}/{self.version}/"
        modules = sorted(name for name in self.assets if name.endswith(".js") and "/" not in name) + self._scripts_of(path)
        preloads = "\n".join(f'<link rel="modulepreload" href="{assets}{name}">' for name in modules)
        api = f"{root}../api/v1" if gateway is None else f"{gateway.rstrip('/')}/api/v1"
        values = {"root": root, "assets": assets, "api": api}
        page = self.template.replace("<!-- modules -->", preloads)
        for name, value in values.items():
            page = page.replace(f"{{{{{name}}}}}", escape(value))
        return page

    def _scripts_of(self, path: str) -> list[str]:
        """Returns the scripts of the page at a path, with those that they import from pages; none for an unknown page."""
        name, _, rest = path.strip("/").partition("/")
        names = [f"{PAGES}{name.removesuffix('s')}.js"] * bool(rest) + [f"{PAGES}{name or 'overview'}.js"]
        found = [each for each in names if each in self.assets][:1]
        for script in found:  # it grows meanwhile
            imported = (PAGES + each.decode() for each in _IMPORT.findall(self.assets[script].body))
            found += [each for each in imported if each not in found]
        return found


def policy(gateway: str = "") -> str:
    """Returns the page's content security policy. `gateway` is the origin of a gateway elsewhere."""
    return "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' blob:",
            f"connect-src 'self' {gateway}".rstrip(),
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


@cache
def shell() -> Shell:
    """Returns the console's files. They are read once."""
    found = dict(_read(files("turnwise.console") / "static", ""))
    template = found.pop(INDEX).decode()
    digest = sha256(template.encode())
    for name in sorted(found):
        digest.update(name.encode() + found[name])
    lean = {name: _lean(name, body) for name, body in found.items()}
    assets = {name: Asset(body, gzip.compress(body, 9, mtime=0), _media_type(name)) for name, body in lean.items()}
    return Shell(template, MappingProxyType(assets), digest.hexdigest()[:12])


def _read(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    """Returns the files below a folder by their paths."""
    found: list[tuple[str, bytes]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _read(entry, f"{prefix}{entry.name}/")
        elif entry.name == INDEX or entry.name.rpartition(".")[2] in MEDIA_TYPES:
            found.append((prefix + entry.name, entry.read_bytes()))
    return found


def _lean(name: str, body: bytes) -> bytes:
    """Returns a script or a style sheet without indentation, lines of comments, and spaces beside operators that no text of the
    console has. Lines keep their numbers.
    """
    if name.endswith(".js"):
        return re.sub(rb" (=>|===|!==|&&|\|\||[=?:]) ", rb"\1", re.sub(rb"(?m)^ *//.*$|^ +", b"", body))
    if name.endswith(".css"):
        return re.sub(rb" *([{};,>]) *|(?<=:) ", rb"\1", re.sub(rb"(?m)^ */\*.*\*/$|^ +", b"", body))
    return body


def _media_type(name: str) -> str:
    return MEDIA_TYPES[name.rpartition(".")[2]]
