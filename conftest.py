"""Settings for every test of the workspace, read from here by each package's own test run too."""

import os

import jax
import pytest
from hypothesis import HealthCheck, settings

# Each new shape compiles, so wall-clock deadlines say nothing about the code under test.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("fast", max_examples=30, **_COMMON)
settings.register_profile("ci", max_examples=200, derandomize=True, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))


def pytest_configure(config: pytest.Config) -> None:
    """Compiles for compile time where nothing runs long: everywhere but in the learning runs."""
    if config.option.markexpr == "not slow":
        jax.config.update("jax_disable_most_optimizations", True)
