"""Environments of the libraries that the benchmarks compare with, and runs of scripts in them.

A peer gets a virtual environment of its own below `.cache/peers`, made by uv, with the peer, the
versions of JAX and Flax that are used here and, for the tasks alone, our own packages as they are
in this checkout. Scripts run in separate processes; the last line that they print is their result
as JSON.
"""

import dataclasses
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
PACKAGES = ("nnx-stateful", "nnx-graph", "nnx-ppo-train")
SHARED_VERSIONS = ("jax", "jaxlib", "flax", "optax", "numpy")


class RunError(RuntimeError):
    """A command failed, ran out of time or printed no result."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """A library to compare with.

    Attributes:
        name: Of the folder of its environment.
        requirements: What uv installs, the peer itself first.
    """

    name: str
    requirements: tuple[str, ...]

    @property
    def version(self) -> str:
        """The first requirement, as in `nnx-ppo==0.3.0`."""
        return self.requirements[0]


NNX_PPO = Peer("nnx-ppo", ("nnx-ppo==0.3.0",))
MEMORAX = Peer("memorax", ("memorax==1.0.1", "gymnax<1", "six"))
REJAX = Peer("rejax", ("rejax==0.1.3", "gymnax<1", "six"))
BRAX = Peer("brax", ("brax==0.14.2", "playground==0.2.0"))


def make_environment(peer: Peer, own: tuple[str, ...] = PACKAGES) -> Path:
    """Makes or completes the environment of a peer, with packages of ours; returns its Python."""
    folder = CACHE / "peers" / peer.name
    python = folder / "bin" / "python"
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    if not python.exists():
        run(["uv", "venv", "--clear", "--python", version, str(folder)], timeout=300)
    same = [f"{name}=={importlib.metadata.version(name)}" for name in SHARED_VERSIONS]
    ours = [f"--editable={ROOT / 'packages' / name}" for name in own]
    command = ["uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python)]
    run([*command, *peer.requirements, *same, *ours], timeout=900)
    return python


def run_job(python: Path | str, script: str, arguments: dict[str, Any], timeout: float) -> Any:
    """Runs a script of this folder in a process of its own.

    Args:
        python: The interpreter, and with it the libraries.
        script: File name in this folder.
        arguments: What the script reads as JSON from its first argument.
        timeout: Seconds after which it is ended.

    Returns:
        What the script printed last, read as JSON.

    Raises:
        RunError: If it fails, runs out of time or prints something else.
    """
    path = Path(__file__).with_name(script)
    cache = {"JAX_COMPILATION_CACHE_DIR": str(CACHE / "benchmarks-compiled")}
    output = run([str(python), str(path), json.dumps(arguments)], timeout, os.environ | cache)
    last = output.strip().rpartition("\n")[2]
    try:
        return json.loads(last)
    except json.JSONDecodeError:
        raise RunError(f"{script}: expected JSON in the last line, got {last[-200:]!r}") from None


def run(command: list[str], timeout: float, env: dict[str, str] | None = None) -> str:
    """Runs a command and returns its output; the error message has the end of its messages."""
    label = " ".join(command[:3])
    started = time.perf_counter()
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=timeout, check=False
        )
    except FileNotFoundError:
        raise RunError(f"{command[0]}: no such program; install uv and run this with it") from None
    except subprocess.TimeoutExpired:
        raise RunError(f"{label}: no result within {timeout:g} s") from None
    if done.returncode:
        seconds = time.perf_counter() - started
        raise RunError(
            f"{label}: exit status {done.returncode} after {seconds:.0f} s\n{done.stderr[-3000:]}"
        )
    return done.stdout
