"""Check of every step of a rollout for values that are not finite."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool
from nnx_stateful import PyTree, StatefulModule, StatefulModuleOutput

from ._nonfinite import (
    KINDS,
    finite_in_rows,
    flags_by_leaf,
    nonfinite_rows,
    unusable_rows,
    without_unusable,
    zero_in_rows,
)
from ._types import Transition

Found = dict[str, Any]
"""Rows (B,) in which a kind of values is not finite, by kind; "leaves" has them by leaf."""


@dataclasses.dataclass(frozen=True)
class StepCheck:
    """What a rollout does about values that are not finite, in the order of a step.

    A bad observation is replaced before the network sees it, and a bad action before the
    environment does: a loss that leaves a step out by a mask still has a gradient of NaN if the
    network computed NaN there. Every method does nothing if the mode is "ignore".

    Attributes:
      n_rows: B.
      mode: "skip", "raise" or "ignore", see PPOConfig.nonfinite.
    """

    n_rows: int
    mode: str

    def observation(self, obs: PyTree) -> PyTree:
        """Returns the observation (B, ...) as the network may see it."""
        return self.replaced(obs)

    def replaced(self, tree: PyTree) -> PyTree:
        """Returns a tree (B, ...) whose unusable values are zeros."""
        return tree if self.mode == "ignore" else without_unusable(tree)

    def network(self, network: StatefulModule, obs: PyTree, out: StatefulModuleOutput) -> Found:
        """Checks what the network saw and what came of it."""
        if self.mode == "ignore":
            return {}
        written = network.carry_written(out.next_state)
        results = (out.output, out.regularization_loss)
        found: Found = {
            "observation": unusable_rows(obs, self.n_rows),
            "carry": nonfinite_rows(written, self.n_rows),
            "output": unusable_rows(results, self.n_rows),
            "value": unusable_rows(out.output.value_estimates, self.n_rows),
        }
        if self.mode == "raise":
            found["leaves"] = {
                "observation": flags_by_leaf(obs, self.n_rows),
                "carry": flags_by_leaf(written, self.n_rows, large=False),
                "output": flags_by_leaf(
                    {"output": out.output, "regularization_loss": out.regularization_loss},
                    self.n_rows,
                ),
            }
        return found

    def environment(self, found: Found, stepped: Any) -> Found:
        """Adds what the environment returned: a bad next observation ends this step's episode."""
        if self.mode == "ignore":
            return found
        obs = found["observation"] | unusable_rows(stepped.obs, self.n_rows)
        found = found | {
            "observation": obs,
            "reward": unusable_rows(stepped.reward, self.n_rows),
        }
        if self.mode == "raise":
            seen = found["leaves"]["observation"]
            following = flags_by_leaf(stepped.obs, self.n_rows)
            found["leaves"] = found["leaves"] | {
                "observation": {name: seen[name] | following[name] for name in seen},
                "reward": flags_by_leaf(stepped.reward, self.n_rows),
            }
        return found

    def bootstrap(self, found: Found, values: PyTree) -> Found:
        """Adds the values that bootstrap the step's return."""
        if self.mode == "ignore":
            return found
        if self.mode == "raise":
            flags = flags_by_leaf({"value_after_the_last_step": values}, self.n_rows)
            outputs = found["leaves"]["output"] | flags
            found = found | {"leaves": found["leaves"] | {"output": outputs}}
        return found | {"output": found["output"] | unusable_rows(values, self.n_rows)}

    def unless_found(self, rows: Bool[Array, " B"], found: Found) -> Bool[Array, " B"]:
        """Returns ``rows`` without those in which something was found."""
        return rows if self.mode == "ignore" else rows & ~_any(found)

    def or_found(self, rows: Bool[Array, " B"], found: Found) -> Bool[Array, " B"]:
        """Returns ``rows`` with those in which something was found."""
        return rows if self.mode == "ignore" else rows | _any(found)

    def resettable(self, out: StatefulModuleOutput, found: Found) -> PyTree:
        """Returns the carry state that ``reset_state`` may see.

        A reset that computes with what was there, as ``0 * prev_state`` does, would keep NaN. For
        all others the compiler drops this.
        """
        if self.mode == "ignore":
            return out.next_state
        return finite_in_rows(out.next_state, _any(found))

    def cleaned(self, transition: Transition, found: Found) -> Transition:
        """Returns the step as it is stored: finite, with the rows in which something was found."""
        if self.mode == "ignore":
            return transition
        bad = _any(found)
        output = transition.network_output
        extras = transition.rollout_extras
        return dataclasses.replace(
            transition,
            # A replay that saw the same input would compute the same NaN.
            obs=zero_in_rows(transition.obs, found["output"] | found["carry"]),
            network_output=without_unusable(output),
            rewards=without_unusable(transition.rewards),
            bootstrap_value=without_unusable(transition.bootstrap_value),
            truncated=transition.truncated & ~bad,
            metrics=transition.metrics | {"nonfinite": found},
            rollout_extras=dataclasses.replace(extras, kept=finite_in_rows(extras.kept, bad)),
            nonfinite=bad,
        )

    def finished(self, rollout: Transition) -> Transition:
        """Leaves out the step before one whose value is missing, for it has no successor."""
        if self.mode == "ignore":
            return rollout
        found = dict(rollout.metrics["nonfinite"])
        value = found.pop("value")
        missing = jnp.concatenate([value[1:], jnp.zeros_like(value[:1])]) & ~rollout.done
        assert rollout.nonfinite is not None
        return dataclasses.replace(
            rollout,
            metrics=rollout.metrics | {"nonfinite": found},
            nonfinite=rollout.nonfinite | missing,
        )


def _any(found: Found) -> Bool[Array, " B"]:
    rows = [found[kind] for kind in KINDS if kind in found]
    return jax.tree.reduce(jnp.logical_or, rows)
