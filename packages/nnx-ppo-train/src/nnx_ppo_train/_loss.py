"""The PPO loss: replay the rollout through ``unroll``, then plain arithmetic."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from nnx_stateful import PyTree, StatefulModule, check_same_state, initial_state

from ._arguments import (
    check_arrays,
    check_network,
    check_one_array,
    check_same_shapes,
    explained,
    refused,
)
from ._estimates import Estimates, estimate, steps_left_out, with_normalized_advantages
from ._hyperparameters import Hyperparameters
from ._logging_level import LoggingLevel
from ._metrics import flatten_metrics
from ._objectives import (
    EPSILON,
    clipped_surrogate,
    explained_variance,
    kl_divergence,
    masked_mean,
    value_loss,
)
from ._pairing import match_rewards
from ._ppo_config import PPOConfig
from ._replay import replay
from ._types import PPONetworkOutput, Transition
from ._validate import check_instance


def ppo_loss(
    networks: StatefulModule,
    network_state: PyTree,
    rollout_data: Transition,
    config: PPOConfig,
    hyper: Hyperparameters | None = None,
    estimates: Estimates | None = None,
) -> tuple[Float[Array, ""], dict[str, Any]]:
    """Returns the loss of a rollout (Schulman et al. 2017, arXiv 1707.06347) and its metrics.

    The rollout is replayed from its initial carry state with the stored rollout_extras and
    resets, so before the first update every likelihood ratio is 1.

    Args:
      networks: the network.
      network_state: carry state before the rollout's first step, leaves (B, ...).
      rollout_data: the rollout, leaves (T, B, ...).
      config: the algorithm.
      hyper: the config's numbers, where they are arrays; by default its own.
      estimates: advantages and targets, normalized if ``config.normalizes_rollouts``; by default
        estimated here, as the config says.

    Returns:
      The scalar loss: clipped surrogate + ``critic_loss_weight`` * value loss + the network's
      regularization loss, each averaged over time and batch; and a dict of metrics, among them
      "replay/ratio_deviation" and "replay/kl", the divergence summed over actions.
    """
    check_network(networks, "ppo_loss")
    check_instance(config, "ppo_loss: config", PPOConfig, "PPOConfig()")
    _check_rollout(rollout_data)
    hyper = hyper or Hyperparameters.of(config)
    with refused("ppo_loss: rollout_data", "a rollout of arrays", rollout_data, TypeError):
        rollout = jax.lax.stop_gradient(rollout_data)
    with explained(lambda: _check_carry(networks, network_state, rollout)):
        out = replay(networks, network_state, rollout, config.bptt_length, config.burn_in)
    _check_replayed(out.output, rollout)
    check_one_array(out.regularization_loss, "ppo_loss: regularization_loss")
    values = match_rewards(out.output.value_estimates, rollout.rewards)
    old_values = match_rewards(rollout.network_output.value_estimates, rollout.rewards)
    new, old = out.output.loglikelihoods, rollout.network_output.loglikelihoods
    left_out = steps_left_out(rollout, config)
    if rollout.nonfinite is not None:
        # Before anything is computed of them: 0 * infinity is NaN in a derivative, too.
        values, new = _replaced((values, new), (old_values, old), rollout.nonfinite)
    normalize = config.normalize_advantages
    if estimates is None:
        baseline = values if config.recompute_advantages else old_values
        estimates = estimate(rollout, baseline, config, hyper)
    else:
        normalize = normalize and not config.normalizes_rollouts
    if normalize:
        estimates = with_normalized_advantages(estimates, left_out)
    ratios = jax.tree.map(lambda n, o: jnp.exp(n - o), new, old)
    actor = jax.tree.map(
        lambda r, a: masked_mean(clipped_surrogate(r, a, hyper.clip_range), left_out),
        ratios,
        estimates.advantages,
    )
    critic = jax.tree.map(
        lambda value, target, before: masked_mean(
            value_loss(value, target, before, hyper.value_clip_range, hyper.huber_delta), left_out
        ),
        values,
        estimates.targets,
        old_values,
    )
    regularization = masked_mean(out.regularization_loss, left_out)
    loss = _total(actor) + hyper.critic_loss_weight * _total(critic) + regularization

    divergences = jax.tree.map(lambda n, o: masked_mean(kl_divergence(n, o), left_out), new, old)
    metrics: dict[str, Any] = {
        "replay/ratio_deviation": _largest_deviation(ratios),
        "replay/kl": _total(divergences),
    }
    level = config.logging_level
    if LoggingLevel.LOSSES in level:
        metrics["losses/actor"] = actor
        metrics["losses/critic"] = critic
        metrics["losses/regularization"] = regularization
    if LoggingLevel.ACTOR_EXTRA in level:
        metrics |= _actor_metrics(ratios, divergences, out.metrics, hyper, left_out)
    if LoggingLevel.CRITIC_EXTRA in level:
        metrics |= _critic_metrics(values, estimates, left_out)
    return loss, jax.lax.stop_gradient(metrics)


def _check_rollout(rollout: Transition) -> None:
    """Raises unless it is a rollout whose leaves all lead with the (T, B) of ``done``."""
    check_instance(rollout, "ppo_loss: rollout_data", Transition, "that of unroll_env")
    ends = {"done": rollout.done, "truncated": rollout.truncated}
    ends |= {} if rollout.nonfinite is None else {"nonfinite": rollout.nonfinite}
    check_same_shapes(ends, "ppo_loss", "(T, B)", bool)
    output = rollout.network_output
    check_instance(output, "ppo_loss: network_output", PPONetworkOutput, "that of unroll_env")
    lead = rollout.done.shape
    rows = {"rewards": rollout.rewards, "log-likelihoods": output.loglikelihoods}
    rows |= {"values": output.value_estimates, "bootstrap_value": rollout.bootstrap_value}
    for name, tree in rows.items():
        check_arrays(tree, f"ppo_loss: {name}")
        shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)]
        if not shapes or any(shape != lead for shape in shapes):
            raise ValueError(
                f"ppo_loss: {name}: expected a number per step and row, {lead}, got {shapes}; pass "
                "a rollout of unroll_env"
            )


def _check_carry(networks: StatefulModule, network_state: PyTree, rollout: Transition) -> None:
    """Raises ValueError unless the carry state is one of the network for the rollout's rows."""
    begun = jax.eval_shape(lambda: initial_state(networks, rollout.done.shape[1]))
    with refused("ppo_loss: network_state", "a carry state", network_state, ValueError):
        hint = "pass the carry state before the rollout"
        check_same_state(begun, network_state, "ppo_loss: network_state", hint)
    with refused("ppo_loss: rollout_data", "a rollout of this network", rollout, ValueError):
        replay(networks, network_state, rollout)


def _check_replayed(output: Any, rollout: Transition) -> None:
    """Raises unless the replay gives what the rollout holds: values and log-likelihoods."""
    check_instance(output, "ppo_loss: the network's output", PPONetworkOutput, "of a PPOAdapter")
    hint = "pass a rollout of this network"
    for value in jax.tree.leaves(output.value_estimates):
        if jnp.shape(value) != rollout.done.shape:
            raise ValueError(
                f"ppo_loss: values: expected one per step and row, {rollout.done.shape}, got "
                f"{jnp.shape(value)}; {hint}"
            )
    was = rollout.network_output.loglikelihoods
    with refused("ppo_loss: loglikelihoods", "those of the rollout", output, ValueError):
        check_same_state(was, output.loglikelihoods, "ppo_loss: loglikelihoods", hint)


def _actor_metrics(
    ratios: PyTree,
    divergences: PyTree,
    network_metrics: PyTree,
    hyper: Hyperparameters,
    left_out: Bool[Array, "T B"] | None,
) -> dict[str, Any]:
    def clipped(ratio: Array) -> Array:
        outside = jnp.abs(ratio - 1.0) > hyper.clip_range
        return masked_mean(outside.astype(ratio.dtype), left_out)

    entropies = [
        masked_mean(value, left_out)
        for name, value in flatten_metrics(network_metrics, "").items()
        if name.endswith("/entropy") and value.ndim == 2
    ]
    return {
        "losses/clipping_fraction": jax.tree.map(clipped, ratios),
        "losses/approx_kl": divergences,
        **({"losses/entropy": _total(entropies)} if entropies else {}),
    }


def _critic_metrics(
    values: PyTree, estimates: Estimates, left_out: Bool[Array, "T B"] | None
) -> dict[str, Any]:
    def r_squared(value: Array, target: Array) -> Array:
        deviation = target - masked_mean(target, left_out)
        error = masked_mean(jnp.square(value - target), left_out)
        return 1.0 - error / (masked_mean(jnp.square(deviation), left_out) + EPSILON)

    return {
        "losses/advantages": estimates.advantages,
        "losses/critic_R^2": jax.tree.map(r_squared, values, estimates.targets),
        "losses/explained_variance": jax.tree.map(
            lambda v, t: explained_variance(v, t, left_out), values, estimates.targets
        ),
    }


def _replaced(tree: PyTree, by: PyTree, steps: Bool[Array, "T B"]) -> PyTree:
    return jax.tree.map(lambda x, other: jnp.where(steps, other, x), tree, by)


def _total(losses: PyTree) -> Float[Array, ""]:
    return sum(jax.tree.leaves(losses), jnp.zeros(()))


def _largest_deviation(ratios: PyTree) -> Float[Array, ""]:
    deviations = [jnp.max(jnp.abs(ratio - 1.0)) for ratio in jax.tree.leaves(ratios)]
    return jnp.max(jnp.stack(deviations))
