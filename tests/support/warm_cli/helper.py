"""Imports what `turnwise` needs, and forks for every caller at the door: once to watch over the command, once to be it."""

import gc
import json
import os
import pkgutil
import select
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

# Not onnxruntime: it starts a thread, and a fork has none of the others'.
_PACKAGES = ("turnwise.cli", "turnwise.learning", "turnwise.matching", "turnwise.selection", "turnwise.selection.contextual")
_MODULES = ("turnwise.assemble", "turnwise.matching.encoder.onnx_encoder", "turnwise.stores.artifacts.local", "numpy.ma")


def main() -> None:
    for package in _PACKAGES:
        for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
            import_module(module.name)
    for name in _MODULES:
        import_module(name)
    gc.collect()
    gc.freeze()  # or every command would count all of this through, and copy it in memory, when it ends
    _become(*_next_command(socket.socket(fileno=int(sys.argv[1]))))
    from turnwise.cli.app import main as turnwise

    turnwise()


def _next_command(door: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Returns in the process that is to be the command; the helper's own end is that of its standard input."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how those ended that watch
    while door in select.select([door, sys.stdin], [], [])[0]:
        connection, _ = door.accept()
        if not os.fork():
            break
        connection.close()
    else:
        os._exit(0)
    door.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, streams, *_ = socket.recv_fds(connection, 1, 3)
    request = json.loads(connection.makefile().readline())
    ended, held = os.pipe()
    command = os.fork()
    if command:
        for descriptor in (held, *streams):
            os.close(descriptor)
        _watch(command, ended, connection)
    os.close(ended)
    connection.close()
    return request, streams


def _watch(command: int, ended: int, connection: socket.socket) -> NoReturn:
    """Tells the caller how the command ended; kills it when the caller is gone."""
    gone = connection.fileno() in select.select([ended, connection.fileno()], [], [])[0]
    if gone:
        os.kill(command, signal.SIGKILL)
    _, status = os.waitpid(command, 0)
    if not gone:
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def _become(request: dict[str, Any], streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Those of the helper remember what theirs could do.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    program = Path(sys.executable).with_name("turnwise")
    sys.argv = [str(program), *request["arguments"]]
    sys.path[0] = str(program.parent)


if __name__ == "__main__":
    main()
