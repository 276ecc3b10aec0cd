"""What the compiler is asked for is something that it knows."""

import jax
import jax.numpy as jnp
import pytest
from nnx_ppo_train._compiler import to_run_often, to_run_once


@pytest.mark.parametrize("options", [to_run_once, to_run_often])
def test_the_compiler_takes_the_options(options):
    compiled = jax.jit(jnp.sin).lower(jnp.zeros(3)).compile(options())
    assert compiled(jnp.zeros(3)).tolist() == [0, 0, 0]


@pytest.mark.parametrize("options", [to_run_once, to_run_often])
def test_other_backends_compile_as_they_do(monkeypatch, options):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert options() is None
