"""From names on the command line to an environment and a network."""

import ctypes.util
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from flax import nnx
from nnx_stateful import StatefulModule

from .._check_training import check_training
from .._env_check import check_env
from .._init_from import freeze, init_from
from .._optimizer import Optimizer
from ..envs import make_env
from ..presets import NetworkOptions, list_networks, make_network
from ._errors import UsageError, user_errors
from ._run_config import RunConfig

PLAYGROUND = "playground/"
INSTALL_PLAYGROUND = (
    "MuJoCo Playground is not installed; run `uv run --extra playground nnx-ppo ...` "
    "or `pip install nnx-ppo-train[playground]`"
)


def make_run(
    run: RunConfig, import_path: Sequence[str] | None = None, *, begins: bool = False
) -> tuple[Any, StatefulModule]:
    """Makes a run's environment and network and checks that they fit together.

    Args:
      run: what to make.
      import_path: folders to import from first; by default those of the run.
      begins: whether the run begins, with the parameters of another one if it names one.

    Returns:
      The environment and the network, with initial parameters from the run's seed.

    Raises:
      UsageError: if there is no such environment or network, or they do not fit together.
    """
    for folder in reversed(run.import_path if import_path is None else import_path):
        if sys.path[:1] != [folder]:
            sys.path.insert(0, folder)
    env = resolve_env(run.env)
    with user_errors():
        check_env(env)
    network = build_network(run, env, nnx.Rngs(run.train.seed), begins=begins)
    with user_errors():
        check_training(env, env, network, run.train, Optimizer(run.train.ppo))
    return env, network


def resolve_env(name: str) -> Any:
    """Makes the environment that ``--env`` names."""
    if name.startswith(PLAYGROUND):
        return _playground_env(name.removeprefix(PLAYGROUND))
    if ":" in name:
        return _call(_factory("--env", name, "make_env()", 0))
    with user_errors():
        try:
            return make_env(name)
        except ValueError as error:
            raise ValueError(
                f"--env: {_without_owner(error)} Tasks of MuJoCo Playground are called "
                "playground/NAME; your own is package.module:make_env"
            ) from error


def build_network(
    run: RunConfig, env: Any, rngs: nnx.Rngs, *, begins: bool = False
) -> StatefulModule:
    """Builds a run's network, frozen where the run says so.

    Args:
      run: the run.
      env: its environment.
      rngs: for the initial parameters.
      begins: whether the run begins, with the parameters of another one if it names one; a run that
        goes on takes all from its own checkpoint.
    """
    network = resolve_network(run, env, rngs)
    with user_errors():
        if begins and run.init_from is not None:
            network = init_from(run.init_from, network, take=run.init_take)
        return freeze(network, run.init_freeze) if run.init_freeze else network


def resolve_network(run: RunConfig, env: Any, rngs: nnx.Rngs) -> StatefulModule:
    """Builds the network that ``--network`` names, for an environment."""
    if ":" in run.network:
        network = _call(_factory("--network", run.network, "make_network(env, rngs)", 2), env, rngs)
        if not isinstance(network, StatefulModule):
            raise UsageError(
                f"--network {run.network}: expected a StatefulModule, got {network!r}; return the "
                "network from the factory"
            )
        return network
    with user_errors():
        try:
            return make_network(run.network, env, rngs, run.net or NetworkOptions())
        except ValueError as error:
            if run.network in list_networks():
                raise
            raise ValueError(
                f"--network: {_without_owner(error)} Your own is package.module:make_network"
            ) from error


def _without_owner(error: ValueError) -> str:
    return str(error).partition(": ")[2]


def _playground_env(task: str) -> Any:
    _render_without_display()
    try:
        from ..envs._playground import make_playground_env
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("mujoco", "mujoco_playground"):
            raise
        raise UsageError(f"--env {PLAYGROUND}{task}: {INSTALL_PLAYGROUND}") from error
    with user_errors():
        return make_playground_env(task)


def _render_without_display() -> None:
    """Lets MuJoCo draw off screen where there is no display; it reads this when imported."""
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform == "linux" and not display and ctypes.util.find_library("EGL"):
        os.environ.setdefault("MUJOCO_GL", "egl")


def _factory(flag: str, name: str, signature: str, n_arguments: int) -> Callable[..., Any]:
    """Imports ``package.module:factory``."""
    module_name, _, attribute = name.partition(":")
    where = f"{flag} {name}"
    if not module_name or not attribute:
        raise UsageError(f"{where}: expected package.module:factory")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise
        raise UsageError(
            f"{where}: there is no module {missing!r} on the import path, which starts with "
            f"{sys.path[0]!r}; run from the folder that holds it, or install it"
        ) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        here = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise UsageError(
            f"{where}: expected a function {signature}, {module_name} has no function "
            f"{attribute!r}; it has {', '.join(here) or 'none'}"
        )
    try:
        inspect.signature(factory).bind(*[None] * n_arguments)
    except TypeError as error:
        raise UsageError(
            f"{where}: expected a function {signature}, got "
            f"{attribute}{inspect.signature(factory)}: {error}"
        ) from error
    return factory


def _call(factory: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the user's own code: its errors come with their traceback."""
    return factory(*arguments)
