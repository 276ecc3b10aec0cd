"""What the compiler is asked for: on a CPU it takes most of a short training's time."""

from typing import Any

import jax

CompilerOptions = dict[str, Any]
"""Names and values that XLA knows; not every type of value is in JAX's annotations."""


def to_run_once() -> CompilerOptions | None:
    """For what runs once: hardly any optimisation."""
    return _on_cpu(0)


def to_run_often() -> CompilerOptions | None:
    """For what runs often.

    LLVM's first level: its higher ones compile up to a fifth longer, and what the iteration gains,
    most of which is matrix products and loops that XLA has vectorised already, is within the noise.
    """
    return _on_cpu(1)


def _on_cpu(level: int) -> CompilerOptions | None:
    return {"xla_backend_optimization_level": level} if jax.default_backend() == "cpu" else None


def calls_python(program: Any) -> bool:
    """Returns whether a jaxpr, or one inside it, calls back into Python while it runs.

    Example:
      >>> import jax
      >>> calls_python(jax.make_jaxpr(lambda x: x + 1)(1.0))
      False
      >>> calls_python(jax.make_jaxpr(jax.jit(lambda x: jax.debug.callback(print, x)))(1.0))
      True
    """
    jaxpr = getattr(program, "jaxpr", program)
    for equation in jaxpr.eqns:
        if equation.primitive.name.endswith("callback"):
            return True
        inner = jax.tree.leaves(list(equation.params.values()), is_leaf=_is_jaxpr)
        if any(calls_python(value) for value in inner if _is_jaxpr(value)):
            return True
    return False


def _is_jaxpr(value: Any) -> bool:
    return hasattr(getattr(value, "jaxpr", value), "eqns")
