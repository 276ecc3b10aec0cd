"""Random bad arguments: values by name, entry points to throw them at, and the verdict."""

import contextlib
import dataclasses
import itertools
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from nnx_ppo_train import (
    EvalConfig,
    LoggingLevel,
    NonFiniteError,
    NormalTanhSampler,
    PPOConfig,
    Stop,
    TrainConfig,
)
from nnx_ppo_train._arguments import tells
from nnx_ppo_train.envs import CartPole
from nnx_stateful import Dense

AT_ONCE = 50  # values in one example of Hypothesis, of which each takes its time
MANY = settings(
    max_examples=2_000 // AT_ONCE,
    phases=[Phase.generate],  # to shrink that many values takes minutes
    suppress_health_check=list(HealthCheck),
)


class Odd:
    """An object with nothing in it, whose text does not depend on the process."""

    def __repr__(self) -> str:
        return "Odd()"


def fails(*_: Any) -> Any:
    return {}["a"]


LOOP: list[Any] = []
LOOP.append(LOOP)

ODDITIES: dict[str, Any] = {
    "None": None,
    "True": True,
    "numpy bool": np.bool_(False),
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": -float("inf"),
    "0": 0,
    "0.0": 0.0,
    "-1": -1,
    "1": 1,
    "7": 7,
    "0.5": 0.5,
    "2**31": 2**31,
    "2**63": 2**63,
    "10**30": 10**30,
    "10**400": 10**400,
    "-(10**400)": -(10**400),
    "1e39": 1e39,
    "1e-320": 1e-320,
    "complex": 2j,
    "numpy float": np.float32(0.5),
    "numpy int": np.int8(3),
    "no text": "",
    "text": "text",
    "unicode": "łä\U0001f600",
    "markup": "[/x]",
    "nul": "a\0b",
    "surrogate": "\ud800",
    "long text": "x" * 5000,
    "bytes": b"x",
    "[]": [],
    "[1, 'a', None]": [1, "a", None],
    "(0, 50)": (0, 50),
    "(nan,)": (float("nan"),),
    "loop": LOOP,
    "{}": {},
    "{1: 2}": {1: 2},
    "{'a': 1}": {"a": 1},
    "{None: 1, 'a': 2}": {None: 1, "a": 2},
    "set": {3},
    "range": range(3),
    "object": Odd(),
    "class": CartPole,
    "module": np,
    "function of none": lambda: 1,
    "function of any": lambda *_, **__: None,
    "function that fails": fails,
    "function that gives text": lambda *_: "text",
    "vector": np.arange(3.0),
    "matrix": jnp.zeros((2, 3)),
    "cube": np.ones((2, 3, 4), np.float16),
    "no rows": np.zeros((0, 4)),
    "flags": jnp.zeros((2, 3), bool),
    "small ints": np.ones((2, 3), np.int8),
    "complex matrix": jnp.zeros((2, 3), jnp.complex64),
    "text array": np.array(["a", "b"]),
    "object array": np.array([None, {}], object),
    "nan array": np.full((2, 3), np.nan),
    "key": jax.random.key(3),
    "keys": jax.random.split(jax.random.key(3), 2),
    "old key": jax.random.PRNGKey(3),
    "level": LoggingLevel.ALL,
    "algorithm": PPOConfig(),
    "evaluation": EvalConfig(),
    "run": TrainConfig(),
    "stop": Stop(),
    "layer": Dense(4, 4, nnx.Rngs(0)),
    "sampler": NormalTanhSampler(nnx.Rngs(0)),
    "linear": nnx.Linear(2, 2, rngs=nnx.Rngs(0)),
    "rngs": nnx.Rngs(0),
    "env": CartPole(),
}


class Reached(BaseException):  # no handler of errors may take it for one
    """Raised in place of what would compile: the arguments went through all checks."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """A public function with good arguments, and what each of them may be replaced by.

    Attributes:
      call: the function.
      good: good arguments by name.
      odd: by argument, further values by name than those that are odd everywhere.
    """

    call: Callable[..., Any]
    good: Mapping[str, Any]
    odd: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)

    def changes(self) -> st.SearchStrategy[dict[str, str]]:
        """Strategy of one or two arguments to replace, and by what."""
        pairs = [
            (name, label) for name in self.good for label in (*ODDITIES, *self.odd.get(name, ()))
        ]
        special = [(name, label) for name, odd in self.odd.items() for label in odd]
        one = st.sampled_from(pairs + special * (len(pairs) // max(1, 2 * len(special))))
        return st.lists(one, min_size=1, max_size=2).map(dict)

    def run(self, changes: Mapping[str, str]) -> None:
        """Calls the function; nothing is returned, since only the errors count."""
        given = {name: {**ODDITIES, **self.odd.get(name, {})}[x] for name, x in changes.items()}
        with contextlib.suppress(Reached):
            self.call(**{**self.good, **given})


DOCUMENTED = (TypeError, ValueError, KeyError, FileNotFoundError, NonFiniteError)


def problem(act: Callable[[], Any]) -> str | None:
    """Runs something and returns what is wrong with the error that it raised, if anything is."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of NumPy and JAX, about dtypes
            act()
    except DOCUMENTED as error:
        if tells(error) and not type(error).__module__.startswith("jax"):
            return None
        return None if _is_the_users(error) else _described(error)
    except Exception as error:
        return None if _is_the_users(error) else _described(error)
    return None


def _is_the_users(error: Exception) -> bool:
    """Returns whether a function of these tests failed by itself, as a user's own function may."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_filename == __file__ and frame.f_code.co_name == "fails"


def _described(error: Exception) -> str:
    trace = "".join(traceback.format_exception(error)[-6:])
    text = f"{type(error).__name__}: {str(error)[:500]}\n{trace[-2500:]}"
    return text.encode("ascii", "backslashreplace").decode()  # processes of pytest pass it on


def product(prefix: str, names: Mapping[str, Any], values: Mapping[str, Any], make: Any) -> Any:
    """What ``make(name, value)`` gives for every pair, by name."""
    pairs = itertools.product(names, values.items())
    return {f"{prefix}{name}={label}": make(name, value) for name, (label, value) in pairs}
