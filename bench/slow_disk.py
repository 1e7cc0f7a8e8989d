"""Simulates a slower disk: every fsync of the process takes some milliseconds longer, for both sides.

Wall times depend on the cost of commits, so they compare between machines only with similar disks. Needs Linux and a C
compiler: restarts the program with a preloaded library that waits in fsync.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

_MARK = "TURNWISE_BENCH_SLOW_DISK"
_SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
static void wait_a_while(void) {
    long micros = atol(getenv("TURNWISE_BENCH_SLOW_DISK"));
    struct timespec span = {micros / 1000000, (micros % 1000000) * 1000};
    nanosleep(&span, 0);
}
int fsync(int file) {
    wait_a_while();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file);
}
int fdatasync(int file) {
    wait_a_while();
    return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file);
}
"""


def is_slowed() -> bool:
    return _MARK in os.environ


def again_slowed(milliseconds: float, folder: Path) -> NoReturn:
    """Restarts this program, with its arguments, on a disk slowed down by that much.

    Raises:
        SystemExit: if that is not possible.
    """
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        sys.exit("A slower disk needs Linux and a C compiler (cc).")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "slow_disk.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-x", "c", "-", "-o", str(library), "-ldl"]
    subprocess.run(command, input=_SOURCE, text=True, check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), _MARK: str(round(1_000 * milliseconds))}
    os.execve(sys.executable, [sys.executable, "-m", "bench", *sys.argv[1:]], environment)
