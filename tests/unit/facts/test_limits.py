"""Limits and run configuration: bounds, and what a store or a wire may bring."""

import pytest
from pydantic import ValidationError

from turnwise.facts.limits import Limits, RunConfig


def test_every_limit_is_bounded_below() -> None:
    for name in Limits.model_fields:
        with pytest.raises(ValidationError, match=name):
            Limits(**{name: -1})


def test_a_run_configuration_survives_a_round_trip() -> None:
    """A43"""
    config = RunConfig(streaming=False, when_busy="interrupt", deadline_seconds=1.5, limits=Limits(transfers=0))
    assert RunConfig.model_validate_json(config.model_dump_json()) == config


def test_unknown_policies_are_refused() -> None:
    with pytest.raises(ValidationError):
        RunConfig(when_busy="panic")  # type: ignore[arg-type]
    with pytest.raises(ValidationError):
        RunConfig(deadline_seconds=0.0)
