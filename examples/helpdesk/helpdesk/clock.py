"""What time it is for the help desk. HELPDESK_NOW (ISO, such as 2026-11-19T10:00) sets the clock, for demos and tests."""

import os
from datetime import date, datetime


def now() -> datetime:
    """The shop's local time, without a zone."""
    fixed = os.environ.get("HELPDESK_NOW")
    return datetime.fromisoformat(fixed) if fixed else datetime.now()


def today() -> date:
    return now().date()
