"""What every test runs under: coroutine tests are run, and nothing reaches the network."""

import asyncio
import inspect
import ipaddress
import os
import socket
import sys
from typing import Any

import pytest

try:
    from hypothesis import HealthCheck, settings
except ImportError:  # the virtual environments of the adapters do not have it
    pass
else:  # no test asserts a time, and a machine may be busy with others
    settings.register_profile("turnwise", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("turnwise")

# Otherwise every worker, and each of the many processes that tests start, would compile everything again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
os.environ["TURNWISE_CACHE"] = "off"  # what tests fit to their agents is not left in anybody's folder for caches


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.has_plugin("xdist"):
        from xdist.workermanage import NodeManager

        NodeManager.EXIT_TIMEOUT = 60  # seconds, after which a worker is killed that still shuts down its database server


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


def _is_local(host: object) -> bool:
    if not host or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _refuse_the_network(event: str, arguments: tuple[Any, ...]) -> None:
    # An audit hook, because it sees every socket of this process, whichever class made it.
    if event not in {"socket.connect", "socket.sendto"}:
        return
    connection, address = arguments
    if connection.family in {socket.AF_INET, socket.AF_INET6} and not _is_local(address[0]):
        raise RuntimeError(f"A test reached for the network: {event} to {address[0]!r}. Tests use fakes or this machine alone.")


sys.addaudithook(_refuse_the_network)
