"""Signals: the first asks, the second stops, and afterwards everything is as it was."""

import signal
import subprocess
import sys
import threading

import pytest
from nnx_ppo_train._interrupt import InterruptRequest

JOB_SIGNALS = [
    pytest.param(getattr(signal, name), 128 + getattr(signal, name), id=name)
    for name in ("SIGTERM", "SIGUSR1")
    if hasattr(signal, name)
]


def test_first_interrupt_is_noted_only(caplog):
    with InterruptRequest() as interrupt:
        assert not interrupt.requested
        assert interrupt.signal is None
        interrupt.raise_requested()  # nothing was asked for
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested
    assert interrupt.signal is signal.SIGINT
    assert "Ctrl-C again stops at once" in caplog.text
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        interrupt.raise_requested()


def test_second_interrupt_stops():
    with InterruptRequest() as interrupt:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            signal.raise_signal(signal.SIGINT)
    assert interrupt.requested


@pytest.mark.parametrize(("number", "code"), JOB_SIGNALS)
def test_signal_of_a_batch_system_is_noted_and_the_second_stops(caplog, number, code):
    before = signal.getsignal(number)
    assert before is signal.SIG_DFL
    with InterruptRequest() as interrupt:
        signal.raise_signal(number)
        assert interrupt.requested
        assert interrupt.signal is number
        with pytest.raises(SystemExit, match=str(code)):
            signal.raise_signal(number)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            signal.raise_signal(signal.SIGINT)
    assert f"{number.name}: stopping after this iteration" in caplog.text
    with pytest.raises(SystemExit, match=str(code)):
        interrupt.raise_requested()
    assert signal.getsignal(number) is before


@pytest.mark.fast("SIGTERM")
@pytest.mark.parametrize(("number", "code"), JOB_SIGNALS)
def test_signal_of_a_batch_system_leaves_a_child_process_its_exit_code(number, code):
    program = (
        "import signal, sys; from nnx_ppo_train._interrupt import InterruptRequest\n"
        "with InterruptRequest() as interrupt:\n"
        f"    signal.raise_signal({int(number)}); print('saved')\n"
        "interrupt.raise_requested(); print('not reached')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (code, "saved\n")


@pytest.mark.parametrize(("number", "code"), JOB_SIGNALS)
@pytest.mark.parametrize("ignored", [True, False])
def test_own_handler_of_a_batch_signal_stays(number, code, ignored):
    calls = []
    before = signal.signal(number, signal.SIG_IGN if ignored else lambda *_: calls.append("mine"))
    try:
        with InterruptRequest() as interrupt:
            signal.raise_signal(number)
        assert not interrupt.requested
        assert calls == ([] if ignored else ["mine"])
    finally:
        signal.signal(number, before)


def test_handler_is_put_back():
    calls = []
    before = signal.signal(signal.SIGINT, lambda *_: calls.append("mine"))
    try:
        with InterruptRequest():
            signal.raise_signal(signal.SIGINT)
        assert calls == []
        signal.raise_signal(signal.SIGINT)
        assert calls == ["mine"]
    finally:
        signal.signal(signal.SIGINT, before)


def test_handler_is_put_back_after_an_error():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError, match="inside"), InterruptRequest():
        raise ZeroDivisionError("inside")
    assert signal.getsignal(signal.SIGINT) is before


def test_handler_unknown_to_python_gives_way_to_the_usual_one(monkeypatch):
    real, given = signal.signal, []

    def from_c(number, handler):
        previous = real(number, handler)
        if number != signal.SIGINT:
            return previous
        given.append(handler)
        return None if len(given) == 1 else previous

    monkeypatch.setattr(signal, "signal", from_c)
    with InterruptRequest():
        pass
    assert given[-1] is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_requests_nest(number):
    with InterruptRequest() as outer, InterruptRequest() as inner:
        signal.raise_signal(number)
        assert (outer.requested, inner.requested) == (False, True)


def test_other_threads_leave_the_handler_alone():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with InterruptRequest() as interrupt:
            seen.append((signal.getsignal(signal.SIGINT), interrupt.requested))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, False)]
