"""What importing the lowest layer may load."""

import subprocess
import sys

HIGHER_LAYERS = {"nnx_graph", "nnx_ppo_train", "nnx_ppo"}
FOR_TRAINING_ONLY = {"orbax", "tyro", "matplotlib", "tensorstore"}
FOR_TESTS_ONLY = {"hypothesis", "pytest", "beartype", "networkx"}


def loaded_by(statement: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter holds after the statement."""
    code = f"{statement}\nimport sys\nprint(*{{name.split('.')[0] for name in sys.modules}})"
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def test_import_loads_no_higher_layer_and_nothing_of_training_or_tests():
    loaded = loaded_by("import nnx_stateful")
    assert "nnx_stateful" in loaded
    assert not loaded & (HIGHER_LAYERS | FOR_TRAINING_ONLY | FOR_TESTS_ONLY)
