"""What the timed trainings of both libraries share: they tell when each iteration was done."""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import jax


def timed(train: Callable[[Callable[[dict[str, Any], int], None]], None]) -> None:
    """Runs `train(log_fn)` until the process is ended from outside.

    Prints a line of JSON at the start and after every iteration: seconds on the system's monotonic
    clock, and the largest memory of the process so far in bytes.
    """

    def tell(*_: Any) -> None:
        line = {"time": time.monotonic(), "peak_bytes": peak_bytes()}
        print(json.dumps(line), flush=True)

    tell()
    train(tell)


def peak_bytes() -> int:
    """The largest memory of the process so far; on an accelerator, that of the accelerator."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        return (device.memory_stats() or {}).get("peak_bytes_in_use", 0)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
