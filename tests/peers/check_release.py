"""Checks that the last commit makes a release: builds it from a clean clone, looks into it, and installs it.

    ./dev release --check             all checks
    ./dev release --check --offline   without installing the wheel and resolving the extras; only the builder is installed

Nothing is published. The files are left in build/release. Gaps are told, but do not fail the check: what is still missing for a
package index, such as the public address of a project that has none.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "release"
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
IN_WHEEL = (
    "turnwise/py.typed",
    "turnwise/gateway/properties.yaml",
    "turnwise/stores/sql/migrations/env.py",
    "turnwise/cli/starter/basic/turnwise.yaml.txt",
)
IN_SDIST = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "src/turnwise/__init__.py")
NOT_IN = ("/tests/", "/.venv/", "__pycache__", "/docs/")
METADATA = (
    "Name",
    "Version",
    "Summary",
    "License-Expression",
    "Requires-Python",
    "Description-Content-Type",
    "Author",
    "Keywords",
)
WHEEL_MIB = 40


def main() -> int:
    """Returns 1 if something is wrong, after all checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", required=True)
    parser.add_argument("--offline", action="store_true")
    given = parser.parse_args()
    wheel, sdist = build()
    checks: list[Callable[[], Iterator[str]]] = [
        lambda: wrong_version(wheel),
        lambda: wrong_metadata(wheel),
        lambda: wrong_contents(names_in_wheel(wheel), IN_WHEEL, "wheel"),
        lambda: wrong_contents(names_in_sdist(sdist), IN_SDIST, "sdist"),
        lambda: wrong_size(wheel),
        wrong_readme,
    ]
    if not given.offline:
        checks += [lambda: wrong_installations(wheel), unresolved_extras]
    problems = [problem for check in checks for problem in check()]
    for problem in problems:
        print(f"release: {problem}")
    for gap in gaps():
        print(f"release: gap: {gap}")
    print(f"release: {wheel.name} and {sdist.name} in {OUT.relative_to(ROOT)}: {len(problems) or 'no'} problem(s)")
    return 1 if problems else 0


def build() -> tuple[Path, Path]:
    """Builds wheel and sdist of the last commit, without anything that is not committed.

    The builder is installed into a temporary environment, with the versions of constraints.txt.
    """
    shutil.rmtree(OUT, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        clone, builder = Path(folder) / "clone", Path(folder) / "builder"
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", "--depth", "1", ROOT.as_uri(), str(clone)], check=True)
        subprocess.run([sys.executable, "-m", "venv", str(builder)], check=True)
        pip = [str(builder / "bin" / "pip"), "install", "-qq", "--disable-pip-version-check"]
        subprocess.run([*pip, "--constraint", str(clone / "constraints.txt"), "hatchling"], check=True)
        command = [str(builder / "bin" / "python"), "-m", "hatchling", "build", "-d", str(OUT)]
        subprocess.run(command, cwd=clone, check=True, stdout=subprocess.DEVNULL)
    return next(OUT.glob("*.whl")), next(OUT.glob("*.tar.gz"))


def wrong_version(wheel: Path) -> Iterator[str]:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    if f"-{version}-" not in wheel.name:
        yield f"the wheel is {wheel.name}, pyproject.toml says {version}"
    if not re.search(rf"^## \[{re.escape(version)}\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE):
        yield f"CHANGELOG.md has no section [{version}]"


def wrong_metadata(wheel: Path) -> Iterator[str]:
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = archive.read(name).decode()
    head, _, description = metadata.partition("\n\n")
    yield from (f"the metadata has no {key}" for key in METADATA if not re.search(rf"^{key}: \S", head, re.MULTILINE))
    if not description.startswith("# Turnwise"):
        yield "the description is not the README"
    yield from (f"the metadata lacks the URL {name}" for name in project_urls() if f"Project-URL: {name}, " not in head)


def names_in_wheel(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def names_in_sdist(sdist: Path) -> list[str]:
    with tarfile.open(sdist) as archive:
        return [name.partition("/")[2] for name in archive.getnames()]


def wrong_contents(names: list[str], needed: tuple[str, ...], kind: str) -> Iterator[str]:
    yield from (f"the {kind} lacks {name}" for name in needed if name not in names)
    yield from (f"the {kind} has {name}" for name in names if any(part in f"/{name}" for part in NOT_IN))
    if kind == "wheel" and not any(name.endswith(".onnx") for name in names):
        yield "the wheel lacks the encoder"


def wrong_size(wheel: Path) -> Iterator[str]:
    size = wheel.stat().st_size / 2**20
    if size > WHEEL_MIB:
        yield f"the wheel has {size:.0f} MiB, more than {WHEEL_MIB}"


def wrong_readme() -> Iterator[str]:
    """A project with a public address has absolute links: on a package index no repository is beside the README."""
    links = relative_links()
    if links and project_urls():
        yield f"README.md has {len(links)} relative links, such as {links[0]}: an index shows them dead"
    dead = (link for link in links if not (ROOT / link.partition("#")[0]).exists())
    yield from (f"README.md has the link {link}, which leads nowhere" for link in dead)


def gaps() -> Iterator[str]:
    """What a project without a public address lacks for a package index. An invented address would be worse than none."""
    if not project_urls():
        yield f"[project.urls] is empty, so the {len(relative_links())} links of README.md stay relative: dead on an index"


def project_urls() -> dict[str, str]:
    found: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"].get("urls", {})
    return found


def relative_links() -> list[str]:
    text = (ROOT / "README.md").read_text("utf-8")
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"https?://|#", target)]


def wrong_installations(wheel: Path) -> Iterator[str]:
    """Installs the wheel on each Python that is to be had, and decides a message in a new project."""
    for python in PYTHONS:
        if not works(python):
            print(f"release: {python} is not to be had; skipped")
            continue
        with tempfile.TemporaryDirectory() as folder:
            environment, shop = Path(folder) / "venv", f"{folder}/shop"
            turnwise = str(environment / "bin" / "turnwise")
            steps = (
                [python, "-m", "venv", str(environment)],
                [str(environment / "bin" / "pip"), "install", "-qq", "--disable-pip-version-check", str(wheel)],
                [turnwise, "init", shop],
                [turnwise, "select", "Where is my order 1001?", "-c", f"{shop}/turnwise.yaml"],
            )
            for step in steps:
                done = subprocess.run(step, cwd=folder, env=plain_environment(), capture_output=True, text=True, check=False)
                if done.returncode:
                    yield f"{python}: {' '.join(step[:3])} failed: {(done.stderr or done.stdout).strip()[-300:]}"
                    break
            else:
                print(f"release: {python}: {done.stdout.splitlines()[0]}")


def works(python: str) -> bool:
    try:
        return subprocess.run([python, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


def plain_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TURNWISE"))}
    return {**kept, "NO_COLOR": "1", "TURNWISE_CACHE": "off"}


def unresolved_extras() -> Iterator[str]:
    done = subprocess.run([sys.executable, str(ROOT / "tests" / "peers" / "check_extras.py")], check=False)
    if done.returncode:
        yield "not every extra resolves: see above"


if __name__ == "__main__":
    sys.exit(main())
