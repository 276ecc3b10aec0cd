"""The table of built-in environments. A new environment is one file and one row here."""

import dataclasses
import difflib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from .._validate import check_instance, shown
from ._body_chain import BodyChain
from ._cartpole import CartPole
from ._constant_reward import ConstantReward
from ._count_recall import CountRecall
from ._counting_limit import CountingLimit
from ._delayed_point_mass import DelayedPointMass
from ._hybrid_choice import HybridChoice
from ._limit_reward import LimitReward
from ._masked_choice import MaskedChoice
from ._multi_choice import MultiChoice
from ._protocol import Env
from ._recall import Recall
from ._repeat_previous import RepeatPrevious


@dataclasses.dataclass(frozen=True)
class EnvSpec:
    """One row of the table.

    Attributes:
        factory: Makes the environment; its keyword arguments are the environment's options.
        description: What the task is, in one line.
    """

    factory: Callable[..., Env]
    description: str


ENVS: dict[str, EnvSpec] = {
    "cartpole": EnvSpec(CartPole, "balance a pole on a cart in gusty wind, all quantities seen"),
    "cartpole-positions": EnvSpec(
        partial(CartPole, observe_velocities=False),
        "the same without velocities: needs memory",
    ),
    "recall": EnvSpec(Recall, "see a symbol, name it some steps later: pure memory"),
    "repeat-previous": EnvSpec(RepeatPrevious, "name the suit seen some cards ago: a queue"),
    "count-recall": EnvSpec(CountRecall, "say how often a value was dealt: several counters"),
    "point-mass": EnvSpec(DelayedPointMass, "steer a point mass that is seen some steps late"),
    "body-chain": EnvSpec(BodyChain, "bodies on springs; dicts of observations, actions, rewards"),
    "hybrid-choice": EnvSpec(HybridChoice, "choose a symbol and aim at a target in one action"),
    "multi-choice": EnvSpec(MultiChoice, "set several dials at once to the positions shown"),
    "masked-choice": EnvSpec(MaskedChoice, "take the largest number of those that are allowed"),
    "constant-reward": EnvSpec(
        ConstantReward, "reward 1 each step under a time limit: known value"
    ),
    "limit-reward": EnvSpec(LimitReward, "reward 1 at the time limit only: known value"),
    "counting-limit": EnvSpec(
        CountingLimit, "three states under a random time limit: known values"
    ),
}


def list_envs() -> dict[str, str]:
    """Return the one-line description of every built-in environment by name.

    Example:
        >>> "cartpole" in list_envs()
        True
    """
    return {name: spec.description for name, spec in ENVS.items()}


def make_env(name: str, **options: Any) -> Env:
    """Make a built-in environment.

    Args:
        name: One of `list_envs()`.
        **options: Keyword arguments of the environment's class.

    Returns:
        The environment, unbatched.

    Raises:
        ValueError: If there is no such environment, or an option has an illegal value.
        TypeError: If the environment has no such option, or an option is of the wrong kind.

    Example:
        >>> make_env("recall", delay=3).delay
        3
    """
    check_instance(name, "make_env: name", str, "'cartpole'")
    if name not in ENVS:
        near = difflib.get_close_matches(name, ENVS, n=3)
        hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise ValueError(
            f"make_env: no environment is called {shown(name)}.{hint} Expected one of "
            f"{', '.join(ENVS)}."
        )
    factory = ENVS[name].factory
    legal = inspect.signature(factory).parameters
    if unknown := sorted(set(options) - set(legal)):
        raise TypeError(
            f"make_env: expected options of {name!r}, {', '.join(legal)}; got "
            f"{', '.join(map(shown, unknown))}"
        )
    return factory(**options)
