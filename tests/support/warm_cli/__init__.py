"""The command `turnwise` for tests, warm: a helper imports all of it once and forks for each command, which saves most of what
a short command costs.

Each command is a process of its own, with its caller's arguments, folder, environment and standard streams, and its exit code
or signal is the caller's. Only what settles how Python itself begins (PYTHON…, the locale) is as in the helper.
"""

import atexit
import functools
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path


@functools.cache
def warm_folder() -> Path:
    """A folder with a program `turnwise` in it. Its helper ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="warm-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    here = Path(__file__).parent
    caller = shlex.join([sys.executable, "-IS", str(here / "caller.py"), f"{folder}/door"])
    (folder / "turnwise").write_text(f'#!/bin/sh\nexec {caller} "$@"\n')
    (folder / "turnwise").chmod(0o755)
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{folder}/door")
        door.listen()
        helper = subprocess.Popen(
            [sys.executable, here / "helper.py", str(door.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[door.fileno()],
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # what is forked should have one thread
            start_new_session=True,  # Ctrl-C is for the tests
        )
    atexit.register(helper.communicate)
    return folder
