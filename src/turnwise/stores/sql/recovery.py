"""What others left: sessions in which something is to be done, and word that an invocation is to be stopped."""

from sqlalchemy import Connection, bindparam, func, literal_column, not_, or_, select, update

from turnwise.facts.sessions import SessionKey
from turnwise.stores.sql import inbox
from turnwise.stores.sql.catalog import open_session
from turnwise.stores.sql.claims import held
from turnwise.stores.sql.cursors import check_limit
from turnwise.stores.sql.tables import at, is_session, sessions

_s = sessions.c

# Written out, because a partial index is used only for the very condition it was made with.
_MAY_BE_DUE = or_(_s.lease_holder.is_not(None), _s.queued > literal_column("0"))
DUE = (
    select(_s.user_id, _s.session_id)
    .where(_s.app == bindparam("at_app"), _MAY_BE_DUE, not_(held()))
    # Not always the same ones first: what stays due, for whatever reason, must not keep others from their turn.
    .order_by(func.random())
    .limit(bindparam("at_most"))
)
_STOP = update(sessions).where(is_session()).values(stop=bindparam("invocation"))
STOPS = select(_s.app, _s.user_id, _s.session_id, _s.stop).where(_s.lease_holder == bindparam("holder"), _s.stop.is_not(None))


def due(connection: Connection, app: str, limit: int) -> list[SessionKey]:
    check_limit(limit)
    found = connection.execute(DUE, {"at_app": app, "at_most": limit})
    return [SessionKey(app, row.user_id, row.session_id) for row in found]


def stop(connection: Connection, key: SessionKey, invocation_id: str) -> None:
    """Nothing happens when the session is missing, or the invocation is not open: word that another is to be stopped stays."""
    if inbox.lock(connection, key) is None:
        return
    session = open_session(connection, key)
    if session is not None and invocation_id in session.head.invocations:
        connection.execute(_STOP, at(key) | {"invocation": invocation_id})


def stops(connection: Connection, holder: str) -> list[tuple[SessionKey, str]]:
    found = connection.execute(STOPS, {"holder": holder})
    return [(SessionKey(row.app, row.user_id, row.session_id), row.stop) for row in found]
