"""An extra is installed from the place that this installation came from; there is no package index that has it."""

import json
import sys
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest

from turnwise.facts import hints


class Installed(Distribution):
    """An installation that records where it came from."""

    def __init__(self, recorded: str | None) -> None:
        self._recorded = recorded

    def read_text(self, filename: str) -> str | None:
        return self._recorded if filename == "direct_url.json" else None

    def locate_file(self, path: Any) -> Path:
        return Path(path)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What Python finds as the installation; put one into the list. Without one, Turnwise is not installed."""
    found: list[Any] = []

    class Finder(DistributionFinder):
        def find_distributions(self, context: DistributionFinder.Context = DistributionFinder.Context()) -> list[Distribution]:  # noqa: B008
            return found if context.name == "turnwise" else []

        def find_spec(self, *_: Any) -> None:
            return None

    keep = [each for each in sys.meta_path if not hasattr(each, "find_distributions")]
    monkeypatch.setattr(sys, "meta_path", [Finder(), *keep])
    return found


CASES = {
    "an editable checkout": (
        {"url": "file:///home/me/turn%20wise", "dir_info": {"editable": True}},
        "pip install -e '/home/me/turn wise[s3,llm]'",
    ),
    "a checkout": ({"url": "file:///src/turnwise", "dir_info": {}}, "pip install 'turnwise[s3,llm] @ file:///src/turnwise'"),
    "a wheel": (
        {"url": "file:///w/turnwise-0.2.0-py3-none-any.whl", "archive_info": {}},
        "pip install 'turnwise[s3,llm] @ file:///w/turnwise-0.2.0-py3-none-any.whl'",
    ),
    "a URL with a password": ({"url": "https://me:secret@host/t.whl"}, "pip install 'turnwise[s3,llm] @ https://host/t.whl'"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_command_names_the_origin(installed: list[Any], case: str) -> None:
    recorded, command = CASES[case]
    installed.append(Installed(json.dumps(recorded)))
    assert hints.install_command(["s3", "llm"]) == command
    assert hints.install_hint(["s3", "llm"]) == f"Install it with: {command}"


@pytest.mark.parametrize("recorded", [None, "no JSON"])
def test_an_unknown_origin_is_explained(installed: list[Any], recorded: str | None) -> None:
    installed.append(Installed(recorded))
    assert hints.install_hint(["s3"]) == (
        "Install it with: pip install 'turnwise[s3] @ file:///PATH' (PATH is the wheel, or a checkout)"
    )


def test_a_source_folder_on_the_path_has_no_origin(installed: list[Any]) -> None:
    with pytest.raises(PackageNotFoundError):
        distribution("turnwise")
    assert "file:///PATH" in hints.install_hint(["s3"])
