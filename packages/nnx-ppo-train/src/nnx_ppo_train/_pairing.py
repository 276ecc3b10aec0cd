"""Which tree belongs to which: values to rewards, advantages to likelihoods."""

from typing import Any

import jax
from nnx_stateful import PyTree


def match_rewards(values: PyTree, rewards: PyTree) -> PyTree:
    """Returns the value tree in the structure of the reward tree.

    Trees of one leaf each pair whatever their structure, so that ``{"value": v}`` serves an
    environment with a bare reward.

    Raises:
      ValueError: if the trees differ otherwise.
    """
    wanted, given = jax.tree.structure(rewards), jax.tree.structure(values)
    if wanted == given:
        return values
    if wanted.num_leaves == given.num_leaves == 1:
        return wanted.unflatten(jax.tree.leaves(values))
    raise ValueError(
        f"values and rewards do not match: the environment gives rewards {leaf_names(rewards)}, "
        f"the network values {leaf_names(values)}; give the value port of PPOAdapter one output "
        "per reward, of the same name"
    )


def match_likelihoods(advantages: PyTree, loglikelihoods: PyTree, combine: bool) -> PyTree:
    """Returns for each log-likelihood the advantage that trains it.

    A reward trains the actions below its key, one or a whole tree of them: those of an agent, say.

    Args:
      advantages: one leaf per reward.
      loglikelihoods: one leaf per action.
      combine: train every action on the sum of all advantages.

    Raises:
      ValueError: if there are several rewards, not combined, and actions have other keys.
    """
    leaves = jax.tree.leaves(advantages)
    if combine or len(leaves) == 1:
        total = sum(leaves[1:], leaves[0])
        return jax.tree.map(lambda _: total, loglikelihoods)
    try:
        return jax.tree.map(
            lambda advantage, part: jax.tree.map(lambda _: advantage, part),
            advantages,
            loglikelihoods,
        )
    except (ValueError, TypeError):  # the advantages are no prefix of the likelihoods
        pass
    raise ValueError(
        f"rewards and actions do not match: rewards {leaf_names(advantages)}, log-likelihoods "
        f"{leaf_names(loglikelihoods)}; set combine_advantages=True to train every action on "
        "their sum, or name actions like rewards"
    )


def leaf_names(tree: Any) -> str:
    """Names the leaves of a tree for an error message."""
    names = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(tree)]
    return "one bare array" if names == [""] else ", ".join(names) or "nothing"
