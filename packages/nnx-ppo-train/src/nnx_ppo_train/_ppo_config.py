"""PPOConfig: everything that the algorithm can be told."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal

from ._logging_level import LoggingLevel, check_logging
from ._validate import (
    boolean,
    number,
    number_or_schedule,
    numbers_by_key,
    one_of,
    whole_number,
)

Schedule = Callable[[Any], Any]
"""An optax schedule: from the number of gradient updates so far to a value."""

DecayMask = Callable[[str], bool]
"""From a parameter's path, such as "layers/0/linear/kernel", to whether weight decay acts on it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PPOConfig:
    """The algorithm (Schulman et al. 2017, arXiv 1707.06347).

    Options that another one would leave without effect are refused.

    Attributes:
      n_envs: environments stepped in parallel, B.
      rollout_length: steps per environment and iteration, T.
      total_steps: environment steps to train for; the last iteration may overshoot.
      gae_lambda: lambda of generalised advantage estimation, in [0, 1].
      discounting_factor: discount per step, in [0, 1]; a dict gives one for each reward key.
      clip_range: half-width of the interval around 1 to which the likelihood ratio is clipped.
      learning_rate: step size of Adam, or an optax schedule of it, counted in gradient updates
        (``n_epochs * n_minibatches`` to an iteration).
      normalize_advantages: shift and scale advantages to mean 0, std 1.
      combine_advantages: sum the advantages of all reward keys and train every action on the sum.
      n_epochs: passes over the rollout per iteration.
      n_minibatches: parts into which the environments are split per pass; divides ``n_envs``.
      critic_loss_weight: weight of the value loss.
      gradient_clipping: largest global gradient norm, or None.
      weight_decay: decoupled weight decay of AdamW, or None for Adam.
      weight_decay_mask: parameters that decay. "kernels": those of two axes or more, unless their
        name says that they are biases, delays, time constants, scales or logarithms of them.
        "all": every parameter. A function from a parameter's path, such as
        "layers/0/linear/kernel", to a bool chooses freely.
      logging_level: groups of metrics to compute.
      logging_percentiles: report distributions by these percentiles, or None for mean and std.
      learning_rate_schedule: "constant", or "linear": from ``learning_rate`` down to 0 at
        ``total_steps``.
      desired_kl: adapt the learning rate to the Kullback-Leibler divergence (nats) of the policy
        from the one that acted: above twice this the rate is divided by 1.5, below half of it
        multiplied, within a hundredth and ten times the rate that is set. None leaves it alone.
      target_kl: skip the rest of an iteration's updates once the divergence (nats) exceeds this.
      entropy_scale: factor of the entropy weight of all samplers, or an optax schedule of it.
      entropy_schedule: "constant", or "linear": from ``entropy_scale`` down to 0 at
        ``total_steps``.
      value_clip_range: how far a value may move from the rollout's before its loss stops to
        improve, or None for no such clipping.
      huber_delta: error beyond which the value loss grows linearly, or None for squared errors.
      recompute_advantages: estimate advantages anew in every minibatch, with current values;
        False estimates them once per rollout, with the values of the rollout.
      normalize_over: what ``normalize_advantages`` takes mean and std of: each "minibatch", or the
        whole "rollout"; None is what the advantages are estimated from, the rollout unless
        ``recompute_advantages`` is set.
      reward_scaling: factor of all rewards in the losses; reported returns are unscaled. Needs
        ``normalize_values=False``.
      normalize_values: learn values shifted and scaled by running statistics of their targets, so
        that the unit of rewards does not matter: ``critic_loss_weight``, ``value_clip_range`` and
        ``huber_delta`` then act in standard deviations of the targets.
      normalize_rewards: divide rewards by the running std of their discounted sums. Needs
        ``normalize_values=False``.
      bptt_length: steps through which gradients flow back in time; the carry state goes on. Divides
        the replayed steps (``rollout_length - burn_in``). None is the whole rollout.
      burn_in: steps at the rollout's start that only bring the carry state up to date with the
        current parameters: no loss, no gradient.
      truncation: what a time limit means. "bootstrap": the return goes on with the value of the
        last observation. "mask": the truncated step leaves the losses, the advantage statistics and
        the running statistics.
      env_resets: "pool": fresh states are made for all environments at once when needed and
        handed out one by one. "fresh": a reset of all environments at every step in which an
        episode ends.
      nonfinite: treatment of values that are not finite. "skip": such a sample is left out of the
        losses and statistics, its row starts a new episode, and an update with such a gradient is
        not applied; both are counted in the ``nonfinite/...`` metrics, and ten iterations without
        an applied update end the run with NonFiniteError. "raise": the first one ends the run with
        NonFiniteError, which names iteration, module and leaf. "ignore": no check at all.
    """

    n_envs: int = 256
    rollout_length: int = 20
    total_steps: int = 512_000
    gae_lambda: float = 0.95
    discounting_factor: float | Mapping[str, float] = 0.99
    clip_range: float = 0.2
    learning_rate: float | Schedule = 1e-3
    normalize_advantages: bool = True
    combine_advantages: bool = False
    n_epochs: int = 4
    n_minibatches: int = 4
    critic_loss_weight: float = 1.0
    gradient_clipping: float | None = None
    weight_decay: float | None = None
    weight_decay_mask: Literal["kernels", "all"] | DecayMask = "kernels"
    logging_level: LoggingLevel = LoggingLevel.LOSSES
    logging_percentiles: tuple[int, ...] | None = None
    learning_rate_schedule: Literal["constant", "linear"] = "constant"
    desired_kl: float | None = None
    target_kl: float | None = None
    entropy_scale: float | Schedule = 1.0
    entropy_schedule: Literal["constant", "linear"] = "constant"
    value_clip_range: float | None = None
    huber_delta: float | None = None
    recompute_advantages: bool = False
    normalize_over: Literal["minibatch", "rollout"] | None = None
    reward_scaling: float = 1.0
    normalize_values: bool = True
    normalize_rewards: bool = False
    bptt_length: int | None = None
    burn_in: int = 0
    truncation: Literal["bootstrap", "mask"] = "bootstrap"
    env_resets: Literal["pool", "fresh"] = "pool"
    nonfinite: Literal["skip", "raise", "ignore"] = "skip"

    @property
    def steps_per_iteration(self) -> int:
        """Environment steps of one iteration: B * T."""
        return self.n_envs * self.rollout_length

    @property
    def normalizes_rollouts(self) -> bool:
        """True if advantages are normalized once, over the whole rollout."""
        once = self.normalize_advantages and not self.recompute_advantages
        return once and self.normalize_over != "minibatch"

    @property
    def updates_per_iteration(self) -> int:
        """Gradient updates of one iteration."""
        return self.n_epochs * self.n_minibatches

    def __post_init__(self) -> None:
        for name in ("n_envs", "rollout_length", "total_steps", "n_epochs", "n_minibatches"):
            whole_number(self, name, at_least=1)
        number(self, "gae_lambda", at_least=0.0, at_most=1.0)
        numbers_by_key(self, "discounting_factor", at_least=0.0, at_most=1.0)
        for name in ("clip_range", "reward_scaling"):
            number(self, name, above=0.0)
        number_or_schedule(self, "learning_rate", above=0.0)
        number_or_schedule(self, "entropy_scale", at_least=0.0)
        number(self, "critic_loss_weight", at_least=0.0)
        for name in (
            "gradient_clipping",
            "weight_decay",
            "desired_kl",
            "target_kl",
            "value_clip_range",
            "huber_delta",
        ):
            number(self, name, above=0.0, optional=True)
        for name in (
            "normalize_advantages",
            "combine_advantages",
            "recompute_advantages",
            "normalize_values",
            "normalize_rewards",
        ):
            boolean(self, name)
        check_logging(self)
        one_of(self, "learning_rate_schedule", ("constant", "linear"))
        one_of(self, "entropy_schedule", ("constant", "linear"))
        one_of(self, "normalize_over", ("minibatch", "rollout", None))
        one_of(self, "truncation", ("bootstrap", "mask"))
        one_of(self, "env_resets", ("pool", "fresh"))
        one_of(self, "nonfinite", ("skip", "raise", "ignore"))
        if not callable(self.weight_decay_mask):
            one_of(self, "weight_decay_mask", ("kernels", "all"))
        whole_number(self, "burn_in", at_least=0)
        if self.bptt_length is not None:
            whole_number(self, "bptt_length", at_least=1)
        _check_divisions(self)
        _check_combinations(self)


def _check_divisions(config: PPOConfig) -> None:
    if config.n_envs % config.n_minibatches:
        nearest = max(1, round(config.n_envs / config.n_minibatches)) * config.n_minibatches
        raise ValueError(
            f"PPOConfig.n_envs: expected a multiple of n_minibatches={config.n_minibatches} "
            f"(minibatches split the environments), got {config.n_envs}; the nearest legal "
            f"value is {nearest}"
        )
    if config.burn_in >= config.rollout_length:
        raise ValueError(
            f"PPOConfig.burn_in: expected fewer steps than rollout_length={config.rollout_length} "
            f"(what follows is trained on), got {config.burn_in}; the nearest legal value is "
            f"{config.rollout_length - 1}"
        )
    trained = config.rollout_length - config.burn_in
    if config.bptt_length is not None and trained % config.bptt_length:
        divisors = [n for n in range(1, trained + 1) if trained % n == 0]
        nearest = min(divisors, key=lambda n: abs(n - (config.bptt_length or 0)))
        raise ValueError(
            f"PPOConfig.bptt_length: expected a divisor of {trained} (rollout_length - burn_in), "
            f"got {config.bptt_length}; the nearest legal value is {nearest}"
        )


def _check_combinations(config: PPOConfig) -> None:
    """Raises where an option that is set would be without effect."""
    for name, schedule in (
        ("learning_rate", "learning_rate_schedule"),
        ("entropy_scale", "entropy_schedule"),
    ):
        if callable(getattr(config, name)) and getattr(config, schedule) != "constant":
            raise ValueError(
                f"PPOConfig.{schedule}: expected 'constant' where {name} is a schedule itself, got "
                f"{getattr(config, schedule)!r}; give {name} as a number, or leave {schedule} out"
            )
    _check_normalization(config)
    if config.critic_loss_weight == 0:
        for name in ("value_clip_range", "huber_delta"):
            if getattr(config, name) is not None:
                raise ValueError(
                    f"PPOConfig.{name}: expected None where critic_loss_weight is 0 (there is no "
                    f"value loss), got {getattr(config, name)}; leave it out"
                )
    if config.updates_per_iteration == 1:
        for name in ("desired_kl", "target_kl"):
            if getattr(config, name) is not None:
                raise ValueError(
                    f"PPOConfig.{name}: expected None where an iteration is one update (the policy "
                    f"is the one that acted, the divergence 0), got {getattr(config, name)}; raise "
                    "n_epochs or n_minibatches, or leave it out"
                )


def _check_normalization(config: PPOConfig) -> None:
    """Raises where one normalization would be without effect beside another."""
    if config.normalize_over == "rollout" and not config.normalize_advantages:
        raise ValueError(
            "PPOConfig.normalize_over: 'rollout' has no effect with normalize_advantages=False; "
            "leave it out, or normalize"
        )
    if config.normalize_over == "rollout" and config.recompute_advantages:
        raise ValueError(
            "PPOConfig.normalize_over: expected 'minibatch' where recompute_advantages=True (no "
            "update sees the whole rollout), got 'rollout'; set recompute_advantages=False"
        )
    normalized = [n for n in ("normalize_values", "normalize_rewards") if getattr(config, n)]
    if len(normalized) == 2:
        raise ValueError(
            "PPOConfig.normalize_rewards: expected False where normalize_values=True (it divides "
            "any factor of the rewards out), got True; leave it out, or set normalize_values=False"
        )
    if normalized and config.reward_scaling != 1.0:
        raise ValueError(
            f"PPOConfig.reward_scaling: expected 1.0 where {normalized[0]}=True (it divides any "
            f"factor out), got {config.reward_scaling}; set {normalized[0]}=False"
        )
