"""Holds the house: floors, circles, sizes, names, and what `import turnwise` may do.

Each check is a function over a source folder that returns what is wrong, one line each; the self-tests below show on
small made-up trees that it fails when it should.
"""

import ast
import graphlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

FLOORS: tuple[frozenset[str], ...] = (
    frozenset({"facts"}),
    frozenset({"matching", "transcript"}),
    frozenset({"ports"}),
    frozenset({"stores", "models", "tools", "guardrails", "telemetry", "dispatch", "access", "wire", "console"}),
    frozenset({"selection", "agents"}),
    frozenset({"runner"}),
    frozenset({"flows", "learning"}),
    frozenset({"config"}),
    frozenset({"assemble"}),
    frozenset({"gateway", "client", "testing"}),
    frozenset({"cli"}),
    frozenset({"", "content", "errors"}),  # turnwise/__init__.py and two more tables of public names: nobody below imports them
)
FLOOR_OF = {package: number for number, floor in enumerate(FLOORS, 1) for package in floor}
IMPLEMENTATIONS = ("turnwise.stores.",)
MAY_NAME_IMPLEMENTATIONS = frozenset({"assemble", "testing", ""})
FACE_OF_IMPLEMENTATIONS = "turnwise.stores"
BY_URL = ("turnwise.runner.runner", "turnwise.stores.sql")
"""A runner opens the store that a URL names: this module names that implementation, and no other one."""

TUPLE_FIELDS = 5
WIDE_TUPLES = frozenset(
    {
        "assemble.Report",
        "client.request.ApiRequest",
        "config.settings.Settings",
        "flows.record.TaskRecord",
        "flows.record.TurnRecord",
        "gateway.a2a.errors.Refusal",
        "gateway.ag_ui.start.RunRequest",
        "gateway.front.Front",
        "gateway.problems.Problem",
        "gateway.services.conversations.ConversationRequest",
        "gateway.services.messages.MessageRequest",
        "gateway.services.sessions.Window",
        "learning.lint_examples.Finding",
        "learning.measures.Measures",
        "learning.measures.Outcome",
        "learning.report.plots.Frame",
        "learning.evaluate.Subject",
        "matching.encoder.onnx_graph.Shape",
        "matching.encoder.export.SourceModel",
        "matching.index._Cells",
        "matching.match.Match",
        "matching.scorers.TrainingSet",
        "matching.text_features.TextFeatures",
        "ports.decisions.Decision",
        "ports.decisions.InvocationInfo",
        "selection.contextual.features.Features",
        "selection.contextual.trained_model.Coefficients",
        "stores.sql.append_plan.AppendPlan",
        "stores.sql.log.Window",
        "stores.sql.rows.HeadRow",
    }
)
"""The named tuples of more fields: rows and arrays that are made from sequences, and values that are not yet converted."""

CHECKED_CHANGES = "turnwise.facts.fact"
"""The module whose functions check the changes of models before they copy one."""

FILE_LINES, FUNCTION_LINES, PUBLIC_METHODS = 500, 60, 12
VAGUE_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "base", "core", "manager"})
UNFINISHED = re.compile(r"\b(TODO|FIXME)\b|\bfor later\b")
HEAVY = ("pydantic", "sqlalchemy", "alembic", "typer", "rich", "yaml", "re2", "psycopg", "obstore")

SOURCE = Path(__file__).resolve().parent.parent / "src"
Check = Callable[[Path], list[str]]


def files(source: Path) -> Iterator[tuple[str, Path]]:
    """Modules by dotted name, a package under its own name."""
    for path in sorted((source / "turnwise").rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def package_of(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


def named_modules(node: ast.AST) -> Iterator[str]:
    """What an import statement, or a call that imports by name, mentions; `from a import b` gives `a.b`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in {"import_module", "__import__"} and isinstance(node.args[0].value, str):
            yield node.args[0].value


def imports(source: Path) -> dict[str, set[str]]:
    """Which of our modules each module imports, wherever the import stands."""
    modules = dict(files(source))
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        targets = graph[module] = set()
        for node in ast.walk(parse(path)):
            for name in named_modules(node):
                if name.split(".")[0] in {"turnwise", ""}:
                    targets.add(name if name in modules else name.rpartition(".")[0])
    return graph


def floor_violations(source: Path) -> list[str]:
    found = []
    for module, targets in imports(source).items():
        mine = package_of(module)
        if mine not in FLOOR_OF:
            found.append(f"{module}: the package {mine!r} has no floor")
            continue
        for target in sorted(targets):
            theirs = package_of(target)
            if target.startswith("."):
                found.append(f"{module}: relative import of {target}")
            elif mine != theirs and FLOOR_OF.get(theirs, 0) >= FLOOR_OF[mine]:
                found.append(f"{module} (floor {FLOOR_OF[mine]}) imports {target} (floor {FLOOR_OF[theirs]})")
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return ["circle: " + " -> ".join(error.args[1])]
    return []


def circles(source: Path) -> list[str]:
    """Circles among modules, and among the children of every package taken as wholes."""
    graph = imports(source)
    found = circle({module: targets - {module} for module, targets in graph.items()})
    for package in sorted(module for module, path in files(source) if path.name == "__init__.py"):
        depth = package.count(".") + 2
        siblings: dict[str, set[str]] = {}
        for module, targets in graph.items():
            if module.startswith(package + "."):
                child = ".".join(module.split(".")[:depth])
                inside = {".".join(target.split(".")[:depth]) for target in targets if target.startswith(package + ".")}
                siblings.setdefault(child, set()).update(inside - {child})
        found += circle(siblings)
    return found


def implementation_violations(source: Path) -> list[str]:
    found = []
    for module, targets in imports(source).items():
        for target in sorted(targets):
            if not target.startswith(IMPLEMENTATIONS) or package_of(module) in MAY_NAME_IMPLEMENTATIONS:
                continue
            if module == FACE_OF_IMPLEMENTATIONS or (module, target) == BY_URL:
                continue
            own = ".".join(target.split(".")[:3])
            if module != own and not module.startswith(own + "."):
                found.append(f"{module} names the implementation {target}")
    return found


def size_violations(source: Path) -> list[str]:
    found = []
    for module, path in files(source):
        lines = len(path.read_text("utf-8").splitlines())
        if lines > FILE_LINES:
            found.append(f"{module}: {lines} lines")
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    found.append(f"{module}.{node.name}: {length} lines")
            elif isinstance(node, ast.ClassDef):
                count = len(public_methods(node))
                if count > PUBLIC_METHODS:
                    found.append(f"{module}.{node.name}: {count} public methods")
    return found


def public_methods(node: ast.ClassDef) -> set[str]:
    """Names of public methods; properties are attributes to whoever uses them."""
    methods = (item for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef))
    return {m.name for m in methods if m.name[0] != "_" and not any("property" in ast.dump(d) for d in m.decorator_list)}


def name_violations(source: Path) -> list[str]:
    everything = (path for path in sorted((source / "turnwise").rglob("*")) if "__pycache__" not in path.parts)
    return [f"{path.relative_to(source)}: a name that says nothing" for path in everything if path.stem in VAGUE_NAMES]


def unfinished_work(source: Path) -> list[str]:
    found = []
    for path in sorted(p for p in (source / "turnwise").rglob("*") if p.is_file() and p.suffix != ".pyc"):
        for number, line in enumerate(path.read_text("utf-8", errors="replace").splitlines(), 1):
            if UNFINISHED.search(line):
                found.append(f"{path.relative_to(source)}:{number}: {line.strip()}")
    return found


def wide_tuples(source: Path) -> list[str]:
    """Named tuples of many fields: a caller could unpack or compare them by place. A frozen dataclass has names only."""
    found = []
    for module, path in files(source):
        for node in ast.walk(parse(path)):
            if not isinstance(node, ast.ClassDef) or "NamedTuple" not in map(ast.unparse, node.bases):
                continue
            fields = sum(isinstance(item, ast.AnnAssign) for item in node.body)
            if fields > TUPLE_FIELDS and f"{module}.{node.name}".removeprefix("turnwise.") not in WIDE_TUPLES:
                found.append(f"{module}.{node.name}: a NamedTuple of {fields} fields; use a frozen dataclass")
    return found


def _only_copies(call: ast.Call) -> bool:
    return not call.args and all(each.arg == "deep" for each in call.keywords)


def unchecked_changes(source: Path) -> list[str]:
    """Changes of models that nothing checks. `Fact.replace` and `replaced` check the fields' names and the values."""
    found = []
    for module, path in files(source):
        for node in ast.walk(parse(path)):
            if not isinstance(node, ast.Call) or _only_copies(node) or module == CHECKED_CHANGES:
                continue
            if isinstance(node.func, ast.Attribute) and node.func.attr == "model_copy":
                found.append(f"{module}:{node.lineno}: model_copy(update=…); use replace")
    return found


# Runs in a fresh interpreter. It prints only at the end, because an audit hook that raises could be caught on the way.
_WATCH_THE_IMPORT = """
import os, sys
seen = []
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ACTS = ("socket.", "subprocess.", "sqlite3.", "shutil.", "os.mkdir", "os.rename", "os.remove", "os.system", "os.fork")
def watch(event, arguments):
    if event == "open" and (arguments[2] or 0) & WRITES:
        seen.append(f"opens {arguments[0]} for writing")
    elif event.startswith(ACTS) and event != "socket.__new__":
        seen.append(f"does {event}")
sys.addaudithook(watch)
import turnwise
loaded = sorted({name.partition(".")[0] for name in sys.modules} & set(sys.argv[1:]))
print(*(f"import turnwise loads {name}" for name in loaded), *(f"import turnwise {what}" for what in seen), sep="\\n")
"""


def import_costs(source: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-B", "-c", _WATCH_THE_IMPORT, *HEAVY]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=60)
    return [line for line in result.stdout.splitlines() if line]


CHECKS: tuple[Check, ...] = (
    floor_violations,
    circles,
    implementation_violations,
    size_violations,
    name_violations,
    unfinished_work,
    unchecked_changes,
    wide_tuples,
    import_costs,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_house_stands(check: Check) -> None:
    assert check(SOURCE) == []


# What each check must refuse: files of a made-up source tree, the check, and a word of its complaint.
_LONG_FUNCTION = "def long():\n" + "    x = 1\n" * FUNCTION_LINES
_WIDE_CLASS = "class Wide:\n" + "".join(f"    def m{n}(self): ...\n" for n in range(PUBLIC_METHODS + 1))
BROKEN: dict[str, tuple[dict[str, str], Check, str]] = {
    "upwards": ({"facts/a": "from turnwise.runner.b import x", "runner/b": "x = 1"}, floor_violations, "facts.a"),
    "sideways": ({"matching/a": "import turnwise.transcript.b", "transcript/b": ""}, floor_violations, "matching.a"),
    "for a type only": (
        {"ports/a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from turnwise.cli.b import x", "cli/b": "x = 1"},
        floor_violations,
        "ports.a",
    ),
    "inside a function": (
        {"facts/a": "def f():\n    from turnwise import flows", "flows/__init__": ""},
        floor_violations,
        "turnwise.flows",
    ),
    "by a string": (
        {"facts/a": "import importlib\nimportlib.import_module('turnwise.cli.b')", "cli/b": ""},
        floor_violations,
        "turnwise.cli.b",
    ),
    "the front page from below": ({"runner/a": "from turnwise import Runner"}, floor_violations, "imports turnwise (floor 12)"),
    "relative": ({"facts/a": "from . import b", "facts/b": ""}, floor_violations, "relative"),
    "a package without floor": ({"extra/a": ""}, floor_violations, "no floor"),
    "circle of modules": (
        {"facts/a": "import turnwise.facts.b", "facts/b": "def f():\n    from turnwise.facts.a import x"},
        circles,
        "turnwise.facts.a -> turnwise.facts.b",
    ),
    "circle through a package": (
        {"facts/__init__": "from turnwise.facts.a import x", "facts/a": "from turnwise.facts import y"},
        circles,
        "turnwise.facts",
    ),
    "circle of packages without one of modules": (
        {
            "stores/__init__": "",
            "stores/p/a": "import turnwise.stores.q.a",
            "stores/q/a": "",
            "stores/q/b": "import turnwise.stores.p.b",
            "stores/p/b": "",
        },
        circles,
        "turnwise.stores.p -> turnwise.stores.q",
    ),
    "runner names a store": (
        {"runner/a": "from turnwise.stores.sql.b import X", "stores/sql/b": "X = 1"},
        implementation_violations,
        "runner.a",
    ),
    "cli names a store": (
        {"cli/a": "def f():\n    import turnwise.stores.artifacts.b", "stores/artifacts/b": ""},
        implementation_violations,
        "cli.a",
    ),
    "one store names another": (
        {"stores/sql/a": "from turnwise.stores.artifacts import b", "stores/artifacts/b": ""},
        implementation_violations,
        "sql.a",
    ),
    "long file": ({"facts/a": "x = 1\n" * (FILE_LINES + 1)}, size_violations, "501 lines"),
    "long function": ({"facts/a": _LONG_FUNCTION}, size_violations, "long: 61 lines"),
    "long coroutine": ({"facts/a": "async " + _LONG_FUNCTION}, size_violations, "long: 61 lines"),
    "wide class": ({"facts/a": _WIDE_CLASS}, size_violations, "Wide: 13 public methods"),
    "vague file": ({"facts/utils": ""}, name_violations, "utils.py"),
    "vague folder": ({"facts/common/a": ""}, name_violations, "common"),
    "unfinished": ({"facts/a": "# TODO: think"}, unfinished_work, "facts/a.py:1"),
    "put off": ({"facts/a": '"""Kept for later."""'}, unfinished_work, "facts/a.py:1"),
    "unchecked change": ({"facts/a": "def f(x): return x.model_copy(update={'a': 1})"}, unchecked_changes, "facts.a:1"),
    "unchecked change from a mapping": (
        {"facts/a": "def f(x, y): return x.model_copy(**y)"},
        unchecked_changes,
        "use replace",
    ),
    "wide tuple": (
        {"facts/a": "from typing import NamedTuple\nclass Wide(NamedTuple):\n" + "".join(f"    f{n}: int\n" for n in range(6))},
        wide_tuples,
        "facts.a.Wide: a NamedTuple of 6 fields",
    ),
    "heavy import": ({"__init__": "import turnwise.facts.a", "facts/a": "import yaml"}, import_costs, "loads yaml"),
    "writes a file": ({"__init__": "open(__file__ + '.log', 'w').close()"}, import_costs, "for writing"),
    "opens a socket": (
        {"__init__": "import socket\nsocket.create_server(('127.0.0.1', 0)).close()"},
        import_costs,
        "socket.bind",
    ),
}


def tree(folder: Path, sources: dict[str, str]) -> Path:
    for name, text in {"__init__": "", **sources}.items():
        path = folder / "turnwise" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_house_is_refused(case: str, tmp_path: Path) -> None:
    sources, check, complaint = BROKEN[case]
    found = check(tree(tmp_path, sources))
    assert any(complaint in line for line in found), found


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_a_sound_house_passes(check: Check, tmp_path: Path) -> None:
    sources = {
        "facts/a": "def short(x):\n    return x.model_copy(deep=True)",
        "facts/fact": "def replaced(x, y):\n    return x.model_copy(update=y)",
        "ports/a": "from turnwise.facts.a import short",
        "stores/sql/a": "from turnwise.ports.a import short\nfrom turnwise.stores.sql import b",
        "stores/sql/b": "import yaml",
        "runner/a": "from typing import NamedTuple\nclass Narrow(NamedTuple):\n    a: int\n    def b(self): ...",
        "assemble": "from turnwise.stores.sql.a import short",
        "cli/a": "from turnwise import assemble",
        "testing/a": "from turnwise.stores.sql import b",
    }
    assert check(tree(tmp_path, sources)) == []
