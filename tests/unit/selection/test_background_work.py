"""While there is background work, threads switch often and matrices are multiplied on one core; then all is as before."""

import sys
import threading

from turnwise.selection.background_work import SWITCH_SECONDS, _blas_threads, background_work


def settings() -> tuple[float, int]:
    blas = _blas_threads()
    return round(sys.getswitchinterval(), 6), 1 if blas is None else blas.get()


def test_settings_last_as_long_as_any_work() -> None:
    """F4"""
    usual = settings()
    with background_work():
        with background_work():
            assert settings() == (SWITCH_SECONDS, 1)
        assert settings() == (SWITCH_SECONDS, 1)
    assert settings() == usual


def test_work_of_several_threads_counts_together() -> None:
    usual, begun, go = settings(), threading.Event(), threading.Event()

    def work() -> None:
        with background_work():
            begun.set()
            go.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(30)
    with background_work():
        pass
    assert settings() == (SWITCH_SECONDS, 1), "the other one goes on"
    go.set()
    thread.join()
    assert settings() == usual


def test_work_that_fails_leaves_nothing_changed() -> None:
    usual = settings()
    try:
        with background_work():
            raise ValueError
    except ValueError:
        assert settings() == usual
