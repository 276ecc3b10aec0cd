"""What importing the training package may load."""

import subprocess
import sys

OPTIONAL = {
    "brax", "gymnax", "mujoco", "mujoco_playground", "networkx", "imageio", "tensorboardX", "wandb",
}  # fmt: skip
FOR_TESTS_ONLY = {"hypothesis", "pytest", "beartype", "scipy"}


def loaded_by(statement: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after the statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_import_loads_neither_graphs_nor_extras():
    # JAX itself imports SciPy when it finds it, and so do others of the dependencies.
    loaded = loaded_by("import nnx_ppo_train") - loaded_by("import jax, flax.nnx, optax")
    assert "nnx_ppo_train" in loaded
    assert not loaded & (OPTIONAL | FOR_TESTS_ONLY | {"nnx_graph", "nnx_ppo"})


def test_command_line_imports_without_extras():
    loaded = loaded_by("import nnx_ppo_train.cli")
    assert not loaded & (OPTIONAL | {"nnx_ppo"})
