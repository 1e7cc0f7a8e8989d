"""Plays the README and every page of docs/ as a reader would: each page in an empty folder, its blocks in order.

```python    run; all blocks of a page are one program. A first line `# name.py` makes it that file instead
```text      right after a python block: exactly what that block prints. A block that prints has one
```yaml      first line `# turnwise.yaml`: that file. Without it, keys that take the place of those in the file.
             Either way `turnwise check` has to find nothing wrong
```console   `$ command`, then what it prints; a line `…` stands for any lines. Times, ids, dates and scores may differ.
             `$ export NAME=value` is for the commands after it. `$ turnwise serve` goes on to the end of the page, at a free
             port: what the page has at http://127.0.0.1:8000 is found there
```sh        not run: what it installs and starts must exist
"""

import json
import os
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from warm_cli import warm_folder

from turnwise import Limits, ProcessConfig, RunConfig

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
NAMES = [page.relative_to(ROOT).as_posix() for page in PAGES]
PLAYED = ("python", "text", "yaml", "console", "sh")
SECONDS = 100
SERVED, READY = "http://127.0.0.1:8000", "ready after"

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^# ([\w./-]+\.(?:py|yaml))\n")
_EXPORT = re.compile(r"export (\w+)=(\S+)")
_AGENT_FAILED = re.compile(r"Agent '[^']+' raised \w+ at docs/[^ ]+:\d+ in ")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_DIFFERS = (
    (re.compile(r"(?: ·)? *\d+(?:\.\d+)? ms"), ""),
    (re.compile(r"\b[0-9a-f]{12,28}\b"), "0123456789ab"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|\+00:00)?"), "2026-01-01 00:00"),
    (re.compile(r"\b[01]\.\d\d\b"), "0.50"),
    (re.compile(r"\b\d{1,3} %"), "50 %"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
)

# Runs the python blocks of one page, one line of JSON for each, in one namespace; line numbers are the page's.
_WORKER = """
import contextlib, io, json, sys, traceback
namespace = {"__name__": "__main__"}
for line in sys.stdin:
    job, said, problem = json.loads(line), io.StringIO(), ""
    with contextlib.redirect_stdout(said):
        try:
            exec(compile("\\n" * job["line"] + job["code"], job["page"], "exec"), namespace)
        except BaseException:
            problem = traceback.format_exc()
    print(json.dumps({"said": said.getvalue(), "problem": problem}), flush=True)
"""


class Block(NamedTuple):
    """A fenced block: its language, its text, the line of its fence, and the `text` block right behind it."""

    language: str
    text: str
    line: int
    expected: str | None = None

    @property
    def file(self) -> str | None:
        """The name of the file it is."""
        named = _FILE.match(self.text)
        return named[1] if named else None


def blocks_of(page: str) -> Iterator[Block]:
    """The blocks in order; a text block behind a python block is its expected output."""
    found = list(_FENCE.finditer(page))
    for match, following in zip(found, [*found[1:], None], strict=False):
        expected = None
        if following and following[1] == "text" and not page[match.end() : following.start()].strip():
            expected = following[2]
        yield Block(match[1], match[2], page.count("\n", 0, match.start()) + 1, expected)


class Play:
    """One page at work in its folder. `wrong` collects what is not as the page says."""

    def __init__(self, name: str, folder: Path) -> None:
        self.wrong: list[str] = []
        self._name, self._folder = name, folder
        self._whole: dict[str, Any] = {}
        self._environment, self._served = _environment(), _Served()
        command = [sys.executable, "-W", "error", "-c", _WORKER]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self._worker = subprocess.Popen(command, cwd=folder, env=_environment(), text=True, encoding="utf-8", **pipes)  # type: ignore[call-overload]

    def page(self, text: str) -> None:
        with self._worker:
            try:
                self._blocks(text)
                _, complaints = self._worker.communicate(timeout=SECONDS)
            finally:
                self._worker.kill()
                self._served.end()
        # An example whose agent fails on purpose logs where, as it does for a reader.
        complaints = "".join(line for line in complaints.splitlines(keepends=True) if not _AGENT_FAILED.match(line))
        if complaints:
            self.wrong.append(f"{self._name}: standard error:\n{complaints}")

    def _blocks(self, text: str) -> None:
        blocks = list(blocks_of(text))
        self.wrong += [
            f"{self._name}:{block.line}: {block.language!r} is not played" for block in blocks if block.language not in PLAYED
        ]
        if text.count("```") != 2 * len(blocks):
            self.wrong.append(f"{self._name}: a fence is not one of a block of these: {', '.join(PLAYED)}")
        for block in blocks:
            if block.file:
                (self._folder / block.file).write_text(block.text, "utf-8")
            if block.language == "python" and not block.file:
                self._python(block)
            elif block.language == "yaml":
                self._yaml(block)
            elif block.language == "console":
                self._console(block)
            elif block.language == "sh":
                self._sh(block)

    def _python(self, block: Block) -> None:
        job = json.dumps({"page": self._name, "line": block.line, "code": self._served.there(block.text)})
        self._worker.stdin.write(job + "\n")
        self._worker.stdin.flush()
        answer = json.loads(self._worker.stdout.readline())
        if answer["problem"]:
            self.wrong.append(f"{self._name}:{block.line}: {answer['problem']}")
        self._compare(block.line, block.expected or "", self._served.here(answer["said"]))

    def _yaml(self, block: Block) -> None:
        if block.file not in {None, "turnwise.yaml"}:
            return
        try:
            given = yaml.safe_load(block.text)
        except yaml.YAMLError as error:
            self.wrong.append(f"{self._name}:{block.line}: {error}")
            return
        if block.file:
            self._whole = given
        else:
            self._configure({**self._whole, **given})
        code, said = self._run("turnwise check")
        if code:
            self.wrong.append(f"{self._name}:{block.line}: turnwise check:\n{said}")
        if not block.file:
            self._configure(self._whole)

    def _configure(self, settings: dict[str, Any]) -> None:
        (self._folder / "turnwise.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), "utf-8")

    def _console(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            if exported := _EXPORT.fullmatch(command):
                self._environment[exported[1]] = self._served.there(exported[2])
                said = ""
            elif command.startswith("turnwise serve"):
                said = self._served.begin(command, self._folder, self._environment)
            else:
                said = self._served.here(self._run(self._served.there(command))[1])
            self._compare(block.line, expected, said, command)

    def _sh(self, block: Block) -> None:
        verbs = set(re.findall(r"^ {2}(\w+) ", (ROOT / "dev").read_text("utf-8"), re.MULTILINE))
        extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"])
        unknown = set(re.findall(r"\./dev (\w+)", block.text)) - verbs
        unknown |= {name for names in re.findall(r"\[([\w,]+)\]", block.text) for name in names.split(",")} - extras
        self.wrong += [f"{self._name}:{block.line}: there is no {name!r}" for name in sorted(unknown)]

    def _run(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["sh", "-c", f"exec 2>&1; {command}"],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        return done.returncode, done.stdout

    def _compare(self, line: int, expected: str, said: str, command: str = "") -> None:
        if not matches(expected, said):
            what = f"$ {command}\n" if command else ""
            self.wrong.append(f"{self._name}:{line}: {what}the page says:\n{expected}but it prints:\n{said}")


class _Served:
    """`turnwise serve` as a page begins it, at a port of its own."""

    def __init__(self) -> None:
        self._process: Any = None
        self._reader: threading.Thread | None = None
        self._address = SERVED

    def begin(self, command: str, folder: Path, environment: dict[str, str]) -> str:
        """What it says until it is ready, or has ended."""
        assert self._process is None, "a page serves once"
        words = [*shlex.split(command), "--port", "0"]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self._process = subprocess.Popen(words, cwd=folder, env=environment, text=True, encoding="utf-8", **pipes)  # type: ignore[call-overload]
        said = ""
        for line in self._process.stdout:
            said += line
            if line.startswith(READY):
                break
        # Nobody reads its log, but it must not wait for somebody who does.
        self._reader = threading.Thread(target=self._process.stdout.read)
        self._reader.start()
        if found := re.search(r"http://127\.0\.0\.1:\d+", said):
            self._address = found[0]
        return self.here(said)

    def there(self, text: str) -> str:
        """With the address where it is."""
        return text.replace(SERVED, self._address)

    def here(self, text: str) -> str:
        """With the address that the page has."""
        return text.replace(self._address, SERVED)

    def end(self) -> None:
        if self._process is not None and self._reader is not None:
            self._process.terminate()
            self._process.wait(SECONDS)
            self._reader.join()
            self._process.stdout.close()


def matches(expected: str, said: str) -> bool:
    """Whether a page's output is what was printed, but for times, ids, dates, scores, and what `…` lines stand for."""
    for pattern, same in _DIFFERS:
        expected, said = pattern.sub(same, expected), pattern.sub(same, said)
    regex = "".join(r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line + "\n") for line in expected.splitlines())
    return re.fullmatch(regex, said if said.endswith("\n") or not said else said + "\n") is not None


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(warm_folder()), str(Path(sys.executable).parent), os.environ["PATH"]])
    plain = {"NO_COLOR": "1", "COLUMNS": "", "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1"}
    plain["TURNWISE_CACHE"] = "off"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TURNWISE", "SHOP_", "PYTEST"))}
    return {**kept, **plain, "PATH": path}


def played(page: str, folder: Path, name: str = "page.md") -> list[str]:
    play = Play(name, folder)
    play.page(page)
    return play.wrong


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    if wrong := played(page.read_text("utf-8"), tmp_path, str(page.relative_to(ROOT))):
        pytest.fail("\n\n".join(wrong), pytrace=False)


def test_the_first_screen_shows_a_decision_and_its_reason(tmp_path: Path) -> None:
    """E1: what one sees without scrolling: two commands, a few lines of Python, and what they decided and why."""
    screen = "\n".join(README.read_text("utf-8").splitlines()[:50])
    assert "./dev demo" in screen
    assert "./dev test" in screen
    first = next(block for block in blocks_of(screen) if block.language == "python")
    assert first.expected is not None
    assert "stays" in first.expected
    assert played(screen, tmp_path) == []


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text("utf-8")):
        path, _, anchor = target.partition("#")
        if path.startswith("http"):
            continue
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text("utf-8")), target


def anchors(page: str) -> set[str]:
    """The anchors that a page's headings give."""
    outside = _FENCE.sub("", page)
    titles = re.findall(r"^#+ (.+)$", outside, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_navigation_has_every_page() -> None:
    navigation = (ROOT / "website" / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    assert {page.removeprefix("docs/") for page in NAMES[1:]} - set(re.findall(r"[\w./-]+\.md", navigation)) == set()


WRONG = {
    "other output": ("```python\nprint('one')\n```\n\n```text\ntwo\n```\n", "but it prints:\none"),
    "output that is not shown": ("```python\nprint('one')\n```\n", "but it prints:\none"),
    "output that is missing": ("```python\nx = 1\n```\n```text\none\n```\n", "the page says:\none"),
    "an error": ("# Page\n\n```python\nx = 1\nx.y\n```\n", 'page.md", line 5'),
    "a warning": ("```python\nimport warnings\nwarnings.warn('old')\n```\n", "UserWarning: old"),
    "a complaint at the end": ("```python\nimport sys\nsys.stderr.write('hm')\n```\n", "standard error:\nhm"),
    "a wrong file": ("```yaml\n# turnwise.yaml\napp: 1\n```\n", "config"),
    "no YAML": ("```yaml\n# turnwise.yaml\na: [b\n```\n", "page.md:1: while parsing"),
    "a wrong part": ("```yaml\n# turnwise.yaml\napp: a\nroot: json:loads\n```\n```yaml\npolicy: nope\n```\n", "nope"),
    "a command": ("```console\n$ echo one\ntwo\n```\n", "but it prints:\none"),
    "another language": ("```json\n{}\n```\n", "'json' is not played"),
    "a fence with more": ("```python notest\nx\n```\n", "a fence is not one"),
    "a verb": ("```sh\n./dev dance\n```\n", "no 'dance'"),
    "a server that does not start": ("```console\n$ turnwise serve\nready after 1 s\n```\n", "error[config]"),
    "an extra": ("```sh\npip install 'turnwise[gold]'\n```\n", "no 'gold'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_page_that_is_wrong_is_found(case: str, tmp_path: Path) -> None:
    page, complaint = WRONG[case]
    wrong = played(page, tmp_path)
    assert any(complaint in each for each in wrong), wrong


def test_every_limit_and_its_default_is_listed() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    blocks = [yaml.safe_load(block.text) for block in blocks_of(page) if block.language == "yaml"]
    listed = next(block for block in blocks if "limits" in block)
    assert listed["limits"] == Limits().model_dump()
    assert listed["run"] == RunConfig().model_dump(exclude={"limits", "deadline_seconds"})
    process = next(block["process"] for block in blocks if "process" in block)
    assert process == ProcessConfig().model_dump()


def test_a_page_that_is_right_passes(tmp_path: Path) -> None:
    page = (
        "```python\n# mine.py\nx = 1\n```\n"
        "```python\nfrom mine import x\n```\n"
        "```python\nprint(x + 1)\n```\n\n```text\n2\n```\n"
        "```console\n$ printf 'a\\nb\\nc\\n3 ms\\n'\na\n…\n17 ms\n$ ls\nmine.py\n```\n"
        "```sh\n./dev test\npip install 'turnwise[postgres,s3]'\n```\n"
    )
    assert played(page, tmp_path) == []
