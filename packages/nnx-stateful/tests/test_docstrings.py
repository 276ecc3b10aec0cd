"""Every example in a docstring runs, and every public function and class has one."""

import doctest
import importlib
import inspect
import pkgutil
from typing import Any

import nnx_stateful
import nnx_stateful.testing
import pytest

MODULES = [
    info.name for info in pkgutil.walk_packages(nnx_stateful.__path__, f"{nnx_stateful.__name__}.")
]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# What is built into others, and the probes, are documented without an example each.
WITHOUT_EXAMPLE = {
    "check_same_state",
    "counted_steps",
    "select_rows",
    "reset_rows",
    "noise_state",
    "draw_normal",
    "rekey_noise",
    "has_carry",
    "has_rng_streams",
    "scan_unroll",
    "vmap_unroll",
    "fold_unroll",
    "FixedParameter",
    "NoiseKey",
    "NoiseState",
    "NormalizerStatistics",
    "RecurrentLayer",
    "Routing",
    "rebuild",
    "sequence_length",
}


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=OPTIONS)
    assert failed == 0, f"{name}: {failed} lines fail; see the output above"


@pytest.mark.parametrize("name", nnx_stateful.__all__)
def test_public_name_has_a_docstring(name):
    entry = getattr(nnx_stateful, name)
    if entry is Any or not (inspect.isclass(entry) or inspect.isfunction(entry)):
        return
    assert entry.__doc__
    assert ">>>" in entry.__doc__ or name in WITHOUT_EXAMPLE


@pytest.mark.parametrize("package", [nnx_stateful, nnx_stateful.testing])
def test_all_is_sorted_and_complete(package):
    names = package.__all__
    assert len(set(names)) == len(names)
    assert all(hasattr(package, name) for name in names)
