"""Collecting and evaluating experience."""

from nnx_ppo_train import eval_rollout, unroll_env

__all__ = ["eval_rollout", "unroll_env"]
