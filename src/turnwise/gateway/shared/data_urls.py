"""Files in requests as data URLs or base64. Nothing is fetched from other addresses."""

import base64
import binascii
import re
from collections.abc import Mapping
from mimetypes import guess_type
from types import MappingProxyType
from urllib.parse import unquote_to_bytes

from turnwise.facts.content import BlobPart

DEFAULT_TYPE, PLAIN = "application/octet-stream", "text/plain"
AUDIO: Mapping[object, str] = MappingProxyType({"mp3": "audio/mpeg", "wav": "audio/wav"})

_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}/[A-Za-z0-9][A-Za-z0-9!#$&^_.+-]{0,126}")


def blob_of(url: str, name: str | None = None) -> BlobPart | None:
    """Returns the file in a data URL; None for another URL or an invalid one."""
    scheme, _, rest = url.partition(":")
    about, comma, data = rest.partition(",")
    mime_type, *parameters = (part.strip() for part in about.split(";"))
    if scheme.lower() != "data" or not comma or not (mime_type == "" or _TYPE.fullmatch(mime_type)):
        return None
    if not (parameters and parameters[-1].lower() == "base64"):
        return BlobPart(data=unquote_to_bytes(data), mime_type=mime_type or PLAIN, name=name)
    return from_base64(data, mime_type or DEFAULT_TYPE, name)


def why_no_file(url: str, kind: str) -> tuple[str, str]:
    """Returns the problem and the fix for a URL that `blob_of` rejects. `kind` names the file, such as `image`."""
    example = {"image": "image/png", "file": "application/pdf"}.get(kind, "<type>")
    fix = f"Send the {kind} itself as a data URL: data:{example};base64,…."
    if url[:5].lower() == "data:":
        return "This data URL cannot be read.", fix
    return f"URLs of {kind}s are not fetched." if "://" in url else f"This is no {kind}.", fix


def from_base64(data: str, mime_type: str = DEFAULT_TYPE, name: str | None = None) -> BlobPart | None:
    """Returns the file with these base64 bytes; None if they are invalid."""
    try:
        return BlobPart(data=base64.b64decode(data, validate=True), mime_type=mime_type, name=name)
    except (binascii.Error, ValueError):
        return None


def file_of(given: str, name: str | None) -> BlobPart | None:
    """Returns the file in a data URL, or in base64 with a type guessed from its name; None if it is invalid."""
    return blob_of(given, name) if ":" in given else from_base64(given, guess_type(name or "")[0] or DEFAULT_TYPE, name)


def audio_of(data: str, form: str) -> BlobPart | None:
    """Returns the audio in base64; None if it is invalid or the format is unknown."""
    return from_base64(data, AUDIO[form]) if form in AUDIO else None


def data_url(blob: BlobPart) -> str:
    """Returns the file as a data URL."""
    return f"data:{blob.mime_type};base64,{base64.b64encode(blob.data).decode()}"
