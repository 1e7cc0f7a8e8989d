"""Files inside a request."""

import pytest
from hypothesis import given, strategies as st

from turnwise.facts.content import BlobPart
from turnwise.gateway.shared.content import blob_of, data_url, from_base64


@pytest.mark.parametrize(
    ("url", "mime_type", "data"),
    [
        ("data:image/png;base64,aGk=", "image/png", b"hi"),
        ("DATA:image/svg+xml;charset=utf-8;BASE64,aGk=", "image/svg+xml", b"hi"),
        ("data:text/plain,hi%20there", "text/plain", b"hi there"),
        ("data:,hi", "text/plain", b"hi"),
        ("data:;base64,aGk=", "application/octet-stream", b"hi"),
        ("data:text/plain;base64,", "text/plain", b""),
    ],
)
def test_a_data_url_holds_a_file(url: str, mime_type: str, data: bytes) -> None:
    assert blob_of(url, "n") == BlobPart(data=data, mime_type=mime_type, name="n")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://pictures.example/cat.png",
        "file:///etc/passwd",
        "data:image/png;base64",
        "data:image/png;base64,a",
        "data:image/png;base64,a*==",
        "data:image/png;base64,字字字字",
        "data:image,x",
        "data:text/html\r\nx: y,x",
    ],
)
def test_anything_else_is_none(url: str) -> None:
    assert blob_of(url) is None


@given(st.binary(max_size=50), st.sampled_from(["image/png", "application/x-y+z"]))
def test_a_file_comes_back_from_its_url(data: bytes, mime_type: str) -> None:
    blob = BlobPart(data=data, mime_type=mime_type)
    assert blob_of(data_url(blob)) == blob


@given(st.text())
def test_no_text_makes_trouble(text: str) -> None:
    blob_of(text)
    blob_of("data:" + text)
    from_base64(text)
