"""Which versions are spoken."""

import pytest
from a2a.utils.errors import VersionNotSupportedError

from turnwise.gateway.a2a.request import check_version


@pytest.mark.parametrize("version", ["1.0", " 1.0 ", "1.0.0", "1.0.27"])
def test_a_patch_number_does_not_count(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (None, "0.3"),
        ("", "0.3"),
        ("0.3", "'0.3'"),
        ("1", "'1'"),
        ("1.1", "'1.1'"),
        ("1.7", "'1.7'"),
        ("2.0", "'2.0'"),
        ("x" * 99, "x"),
    ],
)
def test_any_other_is_refused_and_told_what_to_send(version: str | None, said: str) -> None:
    with pytest.raises(VersionNotSupportedError, match=r"Send the header A2A-Version: 1\.0\.") as refused:
        check_version(version)
    assert said in refused.value.message
    assert len(refused.value.message) < 120
    assert refused.value.data == {"supported": "1.0"}
