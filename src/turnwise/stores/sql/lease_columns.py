"""A lease as columns of its session's row: when it counts, how it is taken and given up. Its time is the database's."""

from typing import Any

from sqlalchemy import ColumnElement, Double, and_, bindparam, false, func

from turnwise.stores.sql.tables import clock, sessions

_s = sessions.c

LEASE_RELEASED: dict[str, Any] = {"lease_holder": None, "lease_since": None, "lease_until": None}
"""The columns of a session that nobody has."""


def is_leased() -> ColumnElement[bool]:
    """Whether somebody has the session; never NULL.

    A lease counts from as long before its beginning as it lasts after it: once the clock is at its end it is over, and also
    when the clock stands so far before its beginning that it must have been set back. So whichever way the clock is set, a
    dead holder's lease lasts at most twice its time.
    """
    until = _s.lease_until
    return func.coalesce(and_(clock() < until, clock() >= 2 * _s.lease_since - until), false())


def lease_renewed() -> dict[str, Any]:
    """Columns of a lease that lasts the parameter `seconds` from now on."""
    return {"lease_since": clock(), "lease_until": clock() + bindparam("seconds", type_=Double())}


def lease_taken() -> dict[str, Any]:
    """Columns of a lease that the parameter `holder` has, for the parameter `seconds`."""
    return {"lease_holder": bindparam("holder"), **lease_renewed()}
