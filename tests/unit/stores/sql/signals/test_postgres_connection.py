import asyncio
import logging
import resource
import selectors
import socket
import sys
import threading
import time

import pytest
from sqlalchemy.engine import make_url

from turnwise.facts.hints import install_command
from turnwise.stores.sql.local_signals import Listeners
from turnwise.stores.sql.postgres_signals import SignalConnection, Waker
from turnwise.stores.sql.signal_mailbox import Mailbox
from turnwise.testing.postgres import postgres_url
from turnwise.testing.signals_suite import PATIENCE, fresh_key, heard


def link_to(url: str, listeners: Listeners | None = None) -> tuple[SignalConnection, Mailbox]:
    mailbox = Mailbox(Listeners() if listeners is None else listeners, 3.0)
    return SignalConnection(make_url(url), mailbox), mailbox


def test_a_bell_wakes_once_for_many_rings() -> None:
    waker = Waker()
    with selectors.DefaultSelector() as selector:
        selector.register(waker, selectors.EVENT_READ)
        for _ in range(2):
            assert selector.select(0) == []
            for _ in range(100_000):
                waker.wake()
            assert len(selector.select(0)) == 1
            waker.clear()
        waker.clear()
    waker.close()
    waker.wake()


def test_what_was_stopped_does_not_start() -> None:
    link, _ = link_to(postgres_url())
    link.wake()
    link.stop()
    link.start()
    link.join()
    assert link._thread is None


async def test_starting_twice_is_starting_once() -> None:
    listeners, key = Listeners(), fresh_key()
    listener = listeners.add(key)
    link, _ = link_to(postgres_url(), listeners)
    other, mailbox = link_to(postgres_url())
    before = set(threading.enumerate())
    for _ in range(2):
        link.start()
        other.start()
    assert len(set(threading.enumerate()) - before) == 2
    mailbox.publish(key, None)
    assert await heard(listener) is None
    for one in (link, other):
        one.stop()
        one.join()
    assert set(threading.enumerate()) <= before


def test_without_sockets_it_starts_later(caplog: pytest.LogCaptureFixture) -> None:
    link, _ = link_to(postgres_url())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        link.start()
        link.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert link._thread is None
    assert "Too many open files" in caplog.messages[0]
    assert len(caplog.messages) == 1
    link.start()
    assert link._thread is not None
    link.stop()
    link.join()


def until_logged(caplog: pytest.LogCaptureFixture) -> None:
    deadline = time.monotonic() + PATIENCE
    while not caplog.messages and time.monotonic() < deadline:
        time.sleep(0.01)


def test_without_psycopg_it_names_the_extra(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    link, _ = link_to("postgresql://host/db")
    link.start()
    until_logged(caplog)
    link.stop()
    link.join()
    assert install_command(["postgres"]) in caplog.messages[0]


def test_a_server_that_keeps_silent_holds_up_no_end(caplog: pytest.LogCaptureFixture) -> None:
    """Who ends does not wait until the attempt to connect is given up."""
    caplog.set_level(logging.ERROR)
    with socket.create_server(("127.0.0.1", 0)) as server:
        link, _ = link_to(f"postgresql://ann@127.0.0.1:{server.getsockname()[1]}/db?connect_timeout=3600")
        link.start()
        with server.accept()[0]:
            link.stop()
            link.join()
    assert link._thread is not None
    link._thread.join(PATIENCE)
    assert not link._thread.is_alive()


async def test_the_url_may_say_how_to_connect() -> None:
    listeners, key = Listeners(), fresh_key()
    listener = listeners.add(key)
    options = "&application_name=hear%20me&keepalives_idle=7&options=-c%20lock_timeout%3D1s"
    link, _ = link_to(postgres_url() + options, listeners)
    link.start()
    other, theirs = link_to(postgres_url())
    other.start()
    theirs.publish(key, None)
    assert await heard(listener) is None
    for one in (link, other):
        one.stop()
        await asyncio.to_thread(one.join)
