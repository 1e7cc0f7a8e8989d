"""The lease columns of a session's row: when a lease is valid, and how it is taken and released. By the database's clock."""

from typing import Any

from sqlalchemy import ColumnElement, Double, and_, bindparam, false, func

from turnwise.stores.sql.tables import clock, sessions

_s = sessions.c

LEASE_RELEASED: dict[str, Any] = {"lease_holder": None, "lease_since": None, "lease_until": None}
"""Column values of a session without a holder."""


def is_leased() -> ColumnElement[bool]:
    """Returns the condition that the session has a valid lease; never NULL.

    A lease is valid until its end. It is also over when the clock is further before its start than the lease is long, because
    then the clock was set back. A dead holder's lease thus lasts at most twice its length, even if the clock is set.
    """
    until = _s.lease_until
    return func.coalesce(and_(clock() < until, clock() >= 2 * _s.lease_since - until), false())


def lease_renewed() -> dict[str, Any]:
    """Returns the columns of a lease that lasts the parameter `seconds` from now."""
    return {"lease_since": clock(), "lease_until": clock() + bindparam("seconds", type_=Double())}


def lease_taken() -> dict[str, Any]:
    """Returns the columns of a lease of the parameter `holder` that lasts the parameter `seconds`."""
    return {"lease_holder": bindparam("holder"), **lease_renewed()}
