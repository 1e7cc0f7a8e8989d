"""The names of apps and sessions in Restate, as people read them in its UI and command line."""

import hashlib
import re
from urllib.parse import quote, unquote

from turnwise.facts.sessions import SessionKey

_ODD = re.compile(r"[^A-Za-z0-9_-]+")


def service_of(app: str) -> str:
    """Returns the name of the app's virtual object: `turnwise.APP`. A letter that Restate refuses becomes `_`."""
    plain = _ODD.sub("_", app)
    if plain != app:
        plain = f"{plain}-{hashlib.sha256(app.encode()).hexdigest()[:8]}"
    return f"turnwise.{plain}"


def object_of(key: SessionKey) -> str:
    """Returns the key of the session's object: `USER/SESSION`, each quoted as in a URL."""
    return f"{quote(key.user, safe=' @:')}/{quote(key.id, safe=' @:')}"


def session_of(app: str, name: str) -> SessionKey:
    """Returns the session that `object_of` named."""
    user, _, session = name.partition("/")
    return SessionKey(app, unquote(user), unquote(session))
