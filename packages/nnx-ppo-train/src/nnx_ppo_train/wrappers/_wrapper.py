"""The base of the wrappers: an environment around another one."""

import abc
from typing import Any

from jaxtyping import PRNGKeyArray, PyTree

# Facts about undiscounted returns that environments may publish. They may not hold for the wrapped
# environment, so each wrapper says what becomes of them.
RETURN_FACTS = ("max_return", "optimal_return", "memoryless_return")


class Wrapper(abc.ABC):
    """Holds an inner environment and forwards the attributes that it does not define itself.

    Attributes:
        env: The inner environment.
    """

    def __init__(self, env: Any):
        name = type(self).__name__
        if isinstance(env, type):
            raise TypeError(
                f"{name}: expected an environment, got the class {env.__name__}; "
                f"make an instance: {name}({env.__name__}(...), ...)"
            )
        for method in ("reset", "step"):
            if not callable(getattr(env, method, None)):
                raise TypeError(
                    f"{name}: expected an environment with reset and step, "
                    f"got a {type(env).__name__} without {method}"
                )
        self.env = env

    @abc.abstractmethod
    def reset(self, rng: PRNGKeyArray) -> Any:
        """Return the first state of an episode."""

    @abc.abstractmethod
    def step(self, state: Any, action: PyTree) -> Any:
        """Return the state after `action`."""

    def known_return(self, value: float) -> float | None:
        """Return what a known return of the inner environment becomes, or None."""
        return value

    @property
    def unwrapped(self) -> Any:
        """The innermost environment."""
        return getattr(self.env, "unwrapped", self.env)

    def __getattr__(self, name: str) -> Any:
        # Reached only for what the wrapper lacks; `env` itself while copying an empty instance.
        if name == "env" or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        value = getattr(self.env, name)
        if name in RETURN_FACTS and value is not None:
            return self.known_return(value)
        return value
