"""What importing the graph package may load, and what it may ask pip for."""

import re
import subprocess
import sys
from importlib.metadata import requires

HIGHER_LAYERS = {"nnx_ppo_train", "nnx_ppo"}
FOR_TRAINING = {"optax", "orbax", "tyro", "rich", "matplotlib", "tensorstore", "msgpack"}
OPTIONAL = {"networkx", "hypothesis", "pytest", "beartype"}


def loaded_by(statement: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after the statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_import_loads_nothing_of_training_beyond_what_flax_loads():
    loaded = loaded_by("import nnx_graph") - loaded_by("import jax, flax.nnx")
    assert "nnx_graph" in loaded
    assert not loaded & (HIGHER_LAYERS | FOR_TRAINING | OPTIONAL)


def test_requires_no_package_of_training():
    always = [line for line in requires("nnx-graph") or () if "extra ==" not in line]
    names = {re.split(r"[^\w.-]", line, maxsplit=1)[0].lower() for line in always}
    assert names == {"flax", "jax", "jaxtyping", "nnx-stateful", "numpy"}
