"""The shapes in annotations are true: jaxtyping and beartype find nothing to say."""

import subprocess
import sys

# The hook must be there before the package is imported, so this runs in an interpreter of its own.
# Annotations are checked while tracing, so nothing needs to be compiled.
PROGRAM = """
from jaxtyping import install_import_hook

with install_import_hook("nnx_stateful", "beartype.beartype"):
    import nnx_stateful
    from nnx_stateful import testing

import jax
import jax.numpy as jnp
from flax import nnx

def exercise(case, x):
    net = case.build(nnx.Rngs(0))
    state = nnx_stateful.initial_state(net, 4)
    out = net(state, x)
    state = nnx_stateful.reset_rows(net, out.next_state, jnp.ones(4, bool))
    xs = jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), x)
    out = net.unroll(state, xs, jnp.zeros((3, 4), bool))
    net.unroll(state, xs, rollout_extras=out.rollout_extras)
    net.update_statistics(out.rollout_extras)
    return out.output

for case in testing.shipped_modules():
    jax.eval_shape(lambda x, case=case: exercise(case, x), case.sample(4))
    print(case.name)
"""


def test_annotated_shapes_hold_for_every_module_shipped():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-3000:]
