"""``nnx-ppo envs``."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ..envs import list_envs, make_env
from ..presets import list_networks

NOTES = """
playground/NAME is a task of MuJoCo Playground, for instance playground/CartpoleBalance; it needs
  uv run --extra playground nnx-ppo ...   or   pip install nnx-ppo-train[playground]
package.module:factory is your own, found from the current folder:
  --env my_package.my_module:make_env          make_env() returns an environment
  --network my_package.my_module:make_network  make_network(env, rngs) returns a network
"""


def list_choices(console: Console) -> int:
    """Prints what ``--env`` and ``--network`` take; returns the exit code."""
    envs = _table("--env", "task", "max. return")
    for name, description in list_envs().items():
        env = make_env(name)
        kind = _size(getattr(env, "action_kind", ""))
        action = f"{_size(getattr(env, 'action_size', '?'))} {kind}"
        greatest = getattr(env, "max_return", None)
        observation = _size(getattr(env, "observation_size", "?"))
        known = "unknown" if greatest is None else f"{greatest:g}"
        task = f"{description}\nobservation {observation}; action {action}"
        envs.add_row(name, task, known)
    console.print(envs)
    networks = _table("--network", "what it is")
    for name, description in list_networks().items():
        networks.add_row(name, description)
    console.print(networks)
    console.print(NOTES.strip(), markup=False, highlight=False, soft_wrap=True)
    return 0


def _table(first: str, *others: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name)
    return table


def _size(size: Any) -> str:
    if isinstance(size, Mapping):
        return ", ".join(f"{name}: {_size(part)}" for name, part in size.items())
    return str(size)
