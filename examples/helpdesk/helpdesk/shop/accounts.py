"""Accounts, password resets, the outbox, and cases for people."""

import sqlite3
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

from helpdesk import clock, database, passwords

CODE_MINUTES = 15
WRONG_CODES = 3

CodeOutcome = Literal["right", "wrong", "over"]


class Account(NamedTuple):
    email: str
    name: str
    street: str
    town: str
    state: str
    zip: str
    points: int


class Mail(NamedTuple):
    recipient: str
    subject: str
    body: str


def account(email: str) -> Account | None:
    with database.opened() as db:
        row = db.execute(
            "SELECT email, name, street, town, state, zip, points FROM accounts WHERE email = ?", (email,)
        ).fetchone()
    return Account(*row) if row else None


def move(email: str, *, street: str, town: str, state: str, zip_code: str) -> bool:
    """Changes the address of an account. False when there is no such account."""
    with database.opened() as db:
        done = db.execute(
            "UPDATE accounts SET street = ?, town = ?, state = ?, zip = ? WHERE email = ?",
            (street, town, state, zip_code, email),
        )
        return done.rowcount == 1


def can_sign_in(email: str, password: str) -> bool:
    with database.opened() as db:
        row = db.execute("SELECT password_hash FROM accounts WHERE email = ?", (email,)).fetchone()
    return row is not None and passwords.matches(password, row["password_hash"])


def start_reset(email: str) -> int:
    """Mails a code to that address and gives the reset's number.

    An address without an account gets no mail, and a reset that no code opens: nobody learns here who has an account.
    """
    code = passwords.new_code()
    with database.opened() as db:
        known = db.execute("SELECT 1 FROM accounts WHERE email = ?", (email,)).fetchone() is not None
        kept = passwords.hashed(code if known else passwords.new_password())
        made = db.execute(
            "INSERT INTO resets (email, code_hash, sent_at) VALUES (?, ?, ?)", (email, kept, clock.now().isoformat())
        )
        if known:
            _mail(db, email, "Your code", f"Your code is {code}. It is good for {CODE_MINUTES} minutes.")
        assert made.lastrowid is not None
        return made.lastrowid


def try_code(reset: int, code: str) -> CodeOutcome:
    """Tries a code. Right: a new password is set and mailed. Over: too many wrong codes, too late, or used before."""
    with database.opened() as db:
        row = db.execute("SELECT email, code_hash, sent_at, wrong, state FROM resets WHERE id = ?", (reset,)).fetchone()
        late = clock.now() > datetime.fromisoformat(row["sent_at"]) + timedelta(minutes=CODE_MINUTES)
        if row["state"] != "open" or late:
            return "over"
        if not passwords.matches(code, row["code_hash"]):
            over = row["wrong"] + 1 >= WRONG_CODES
            state = "over" if over else "open"
            db.execute("UPDATE resets SET wrong = wrong + 1, state = ? WHERE id = ?", (state, reset))
            return "over" if over else "wrong"
        password = passwords.new_password()
        db.execute("UPDATE resets SET state = 'used' WHERE id = ?", (reset,))
        db.execute(
            "UPDATE accounts SET password_hash = ?, must_change = 1 WHERE email = ?",
            (passwords.hashed(password), row["email"]),
        )
        _mail(db, row["email"], "Your new password", f"Sign in with {password} and choose your own.")
        return "right"


def outbox(recipient: str) -> list[Mail]:
    """What was mailed to that address, oldest first."""
    with database.opened() as db:
        rows = db.execute("SELECT recipient, subject, body FROM outbox WHERE recipient = ? ORDER BY id", (recipient,))
        return [Mail(*row) for row in rows]


def open_case(email: str, topic: str) -> int:
    """Puts a case into the queue of the people behind the desk, and gives its number."""
    with database.opened() as db:
        made = db.execute(
            "INSERT INTO cases (email, topic, created_at) VALUES (?, ?, ?)", (email, topic, clock.now().isoformat())
        )
        assert made.lastrowid is not None
        return made.lastrowid


def cases_before(case: int) -> int:
    """How many cases wait before this one."""
    with database.opened() as db:
        (count,) = db.execute("SELECT count(*) FROM cases WHERE id < ?", (case,)).fetchone()
        return int(count)


def _mail(db: sqlite3.Connection, recipient: str, subject: str, body: str) -> None:
    db.execute(
        "INSERT INTO outbox (recipient, subject, body, sent_at) VALUES (?, ?, ?, ?)",
        (recipient, subject, body, clock.now().isoformat()),
    )
