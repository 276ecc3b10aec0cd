"""Records and protocols of the algorithm."""

from typing import Any, Protocol, runtime_checkable

from nnx_ppo_train import LoggingLevel, TrainingState, Transition
from nnx_ppo_train.envs import Env as RLEnv

__all__ = ["EnvState", "LoggingLevel", "RLEnv", "TrainingState", "Transition"]


@runtime_checkable
class EnvState(Protocol):
    """What an environment's state must have; MuJoCo Playground's and the built-in ones do.

    Attributes are read-only here, so that frozen records conform. A ``replace`` method is needed
    by wrappers only.

    Example:
      >>> import jax
      >>> from nnx_ppo_train import make_env
      >>> isinstance(make_env("cartpole").reset(jax.random.key(0)), EnvState)
      True
    """

    @property
    def obs(self) -> Any:
        """What the agent sees, a tree of arrays."""
        ...

    @property
    def reward(self) -> Any:
        """Reward of the last step, a scalar or a tree of scalars."""
        ...

    @property
    def done(self) -> Any:
        """Whether the episode is over, a bool or float scalar."""
        ...

    @property
    def info(self) -> dict[str, Any]:
        """Further arrays by name, among them perhaps "truncated"."""
        ...

    @property
    def metrics(self) -> dict[str, Any]:
        """Scalars to log, by name."""
        ...
