"""Ctrl-C: the first asks, the second stops, and afterwards everything is as it was."""

import signal
import threading

import pytest
from nnx_ppo_train._interrupt import InterruptRequest


def test_first_interrupt_is_noted_only(caplog):
    with InterruptRequest() as interrupt:
        assert not interrupt.requested
        signal.raise_signal(signal.SIGINT)
        assert interrupt.requested
    assert "Ctrl-C again stops at once" in caplog.text


def test_second_interrupt_stops():
    with InterruptRequest() as interrupt:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt, match=r"^$"):
            signal.raise_signal(signal.SIGINT)
    assert interrupt.requested


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
        given.append(handler)
        return None if len(given) == 1 else real(number, handler)

    monkeypatch.setattr(signal, "signal", from_c)
    with InterruptRequest():
        pass
    assert given[-1] is signal.default_int_handler


def test_requests_nest():
    with InterruptRequest() as outer, InterruptRequest() as inner:
        signal.raise_signal(signal.SIGINT)
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
