"""What was compiled once need not be compiled again: JAX's cache on disk."""

import os
import sys
from pathlib import Path

import jax


def cache_folder() -> Path | None:
    """The folder, per user, in which JAX keeps what it has compiled; None without a home."""
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]) / "nnx-ppo" / "jax"
    try:
        home = Path.home()
    except (KeyError, RuntimeError):  # no HOME, and nobody in the password file
        return None
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = home / ".cache"
    return base / "nnx-ppo" / "jax"


def use_compilation_cache() -> None:
    """Turns the cache on; JAX_COMPILATION_CACHE_DIR chooses another folder.

    Without a folder that can be written, everything works as well, but compiles each time.
    """
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return  # JAX reads it itself
    folder = cache_folder()
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return
    if not os.access(folder, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    if "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS" not in os.environ:
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)
