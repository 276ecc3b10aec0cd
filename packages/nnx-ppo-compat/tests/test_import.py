"""The published import name is there and asks for no optional extra."""

import subprocess
import sys

OPTIONAL = ["brax", "gymnax", "mujoco", "mujoco_playground", "networkx", "imageio", "wandb"]


def test_import_works_without_any_extra():
    code = "\n".join(
        [
            "import sys",
            f"sys.modules.update(dict.fromkeys({OPTIONAL}))  # None makes an import fail",
            "import nnx_ppo",
        ]
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
