"""Where an exception was raised, as far as it is its developer's own code."""

import sysconfig
from pathlib import Path

_SHOWN = 8
_OURS = str(Path(__file__).resolve().parents[2])
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def own_frames(error: BaseException) -> list[str]:
    """The places the error came through, as `file:line in function`, outermost first, at most 8: the innermost ones.

    Only those outside of Turnwise, Python's library and installed packages; the innermost of all when there is none. Without
    any values.
    """
    places, trace = [], error.__traceback__
    own = []
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}")
        if not code.co_filename.startswith((_OURS, "<frozen", *_INSTALLED)):
            own.append(places[-1])
        trace = trace.tb_next
    return own[-_SHOWN:] or places[-1:]
