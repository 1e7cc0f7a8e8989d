"""Models as a configuration file names them."""

from pathlib import Path

import pytest
from config_play import line_only

from turnwise.config.document import read_document
from turnwise.config.part_entries import build_model
from turnwise.config.part_section import ModelItem
from turnwise.config.validation import Section, validated


class Holder(Section):
    model: ModelItem = None


def read(folder: Path, text: str, **variables: str) -> tuple[str, list[str]]:
    """The model's name, and what is wrong."""
    (folder / "t.yaml").write_text(f"model: {text}\n")
    document = read_document(folder / "t.yaml", variables)
    valid = validated(document, Holder)
    assert valid is not None
    holder, document = valid
    item = holder.model
    model = None if item is None else build_model(document, ("model",), item)
    return (model.name if model else ""), [line_only(error).removeprefix(f"{folder}/") for error in document.problems]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("openai:gpt-5-mini", "openai:gpt-5-mini"),
        ("{model: tiny, url: 'http://127.0.0.1:1/v1'}", "127.0.0.1:tiny"),
        ("{model: tiny, url: 'http://127.0.0.1:1/v1', key: '${KEY}'}", "127.0.0.1:tiny"),
        ("\n  model: tiny\n  url: http://127.0.0.1:1/v1\n  key: ${NOKEY:-}", "127.0.0.1:tiny"),
        ("[openai:gpt-5, {model: tiny, url: 'http://127.0.0.1:1/v1'}]", "openai:gpt-5, 127.0.0.1:tiny"),
        ("{import: 'tw_model:model'}", "scripted:model"),
    ],
)
def test_a_model_by_name_by_address_in_a_list_or_of_ones_own(tmp_path: Path, text: str, name: str) -> None:
    (tmp_path / "tw_model.py").write_text("from turnwise.testing.models import ScriptedModel\nmodel = ScriptedModel()\n")
    assert read(tmp_path, text, KEY="k-123") == (name, [])


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("3", ["t.yaml:1: Here a model was expected, but this is a number. Write provider:name, or"]),
        ("nobody:gpt", ["t.yaml:1: There is no model 'nobody:gpt'. Write provider:model"]),
        ("gpt-5", ["t.yaml:1: There is no model 'gpt-5'."]),
        ("[]", ["t.yaml:1: An empty list names no model."]),
        ("{model: tiny}", ["t.yaml:1: A model needs 'url'."]),
        ("{url: 'http://h/v1'}", ["t.yaml:1: A model needs 'model'."]),
        ("{model: tiny, url: ftp://h}", ["t.yaml:1: The endpoint of model 'tiny' has no http or https URL."]),
        ("{model: tiny, url: 'http://h/v1', keey: a}", ["t.yaml:1: A model has no key 'keey'. Did you mean 'key'?"]),
        ("{model: 3, urrl: a}", ["A model needs 'url'.", "'model' should be text", "A model has no key 'urrl'."]),
        ("\n  - gpt\n  - openai:x\n  - 3", ["t.yaml:2: There is no model 'gpt'.", "t.yaml:4: Here a model was expected"]),
        ("{import: 'nowhere:x'}", ["t.yaml:1: There is no module 'nowhere'"]),
        ("{import: 'json:loads'}", ["t.yaml:1: A function is no model."]),
        ("{import: 'json:loads', url: x}", ["A model with 'import' has no key 'url'."]),
    ],
)
def test_a_mistake_names_its_line(tmp_path: Path, text: str, problems: list[str]) -> None:
    name, found = read(tmp_path, text)
    assert name == ""
    assert len(found) == len(problems)
    assert [problem for problem, said in zip(problems, found, strict=True) if problem not in said] == []


def test_a_key_is_in_no_message(tmp_path: Path) -> None:
    _, found = read(tmp_path, "{model: tiny, url: 'http://h/v1', key: \"${KEY}\"}", KEY="sk-secret\n")
    assert found[0].startswith("t.yaml:1: The key of the endpoint at h is no header value.")
    assert "sk-secret" not in found[0]
