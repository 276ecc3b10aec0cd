"""Settings for every test of the workspace, read from here by each package's own test run too."""

import gc
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase

import jax
import pytest
from hypothesis import HealthCheck, settings

# Each new shape compiles, so wall-clock deadlines say nothing about the code under test.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("fast", max_examples=30, **_COMMON)
settings.register_profile("ci", max_examples=100, derandomize=True, print_blob=True, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# XLA's older code generator, on one thread: half the time that the newer one takes. Later versions
# of jaxlib lack it, and end a process that asks for it.
_QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"


def pytest_configure(config: pytest.Config) -> None:
    """Compiles for compile time where nothing runs long: everywhere but in the learning runs.

    What a process has compiled it need not compile again: the same training in another test.
    """
    # JAX keeps millions of objects: walking over them as often as usual takes a tenth of the time.
    gc.set_threshold(200_000, 20, 50)
    if config.option.markexpr == "not slow":
        jax.config.update("jax_disable_most_optimizations", True)
        if jax.__version_info__ < (0, 11):
            flags = os.environ.get("XLA_FLAGS", "")
            os.environ["XLA_FLAGS"] = f"{flags} {_QUICK_TO_COMPILE}".strip()
    if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="jax-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        jax.config.update("jax_compilation_cache_dir", folder.name)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks as slow all rows of a table but those that ``pytest.mark.fast`` names."""
    unseen: dict[str, set[str]] = defaultdict(set)
    for item in items:
        mark, row = item.get_closest_marker("fast"), getattr(item, "callspec", None)
        if mark is None:
            continue
        name = item.nodeid.partition("[")[0]
        if name not in unseen:
            unseen[name] = set(mark.args)
        fitting = {pattern for pattern in mark.args if row and fnmatchcase(row.id, pattern)}
        unseen[name] -= fitting
        if not fitting:
            item.add_marker(pytest.mark.slow)
    absent = {name: sorted(patterns) for name, patterns in unseen.items() if patterns}
    if absent and not any("::" in word for word in config.args):
        raise pytest.UsageError(f"pytest.mark.fast names rows that are not there: {absent}")


@pytest.fixture(scope="module")
def whole_tracebacks() -> Iterator[None]:
    """JAX leaves its own frames in tracebacks: to take them out takes most of an error's time."""
    before = jax.config.jax_traceback_filtering  # type: ignore[attr-defined]
    jax.config.update("jax_traceback_filtering", "off")
    yield
    jax.config.update("jax_traceback_filtering", before)
