"""Environment steps per second of PPO beside Rejax, first compilation and memory.

Run with `uv run python benchmarks/speed_vs_rejax.py`. Both sides train on gymnax's CartPole-v1,
with separate actor and critic of two layers of 64, in the environment of the peer that uv makes
below `.cache/peers`; their processes take turns (see `_turns.py`). Three tasks:

- `recommended`: what Rejax's repository recommends for CartPole-v1 (`configs/gymnax/cartpole.yaml`:
  tanh, 5 environments, rollouts of 100 steps, 5 epochs of 5 minibatches);
- `default`: the defaults of its PPO (swish, 64 environments, 64 steps, 8 epochs of 16 minibatches);
- `512 envs`: 512 environments, 32 steps, 4 epochs of 4 minibatches.

Rejax trains in one compiled call without a word from within. Its steps are those of a call of
`train` that goes on from the last state (`chunk` iterations of `_speed_gymnax.py`) and holds no
evaluation. Ours are those of as many iterations of `train_ppo`, each a compiled call of its own
that also returns its losses, which are fetched and handed to a function.

What differs in the work: a minibatch of Rejax is drawn from all steps of all environments, one of
ours from the environments, with whole rollouts. Rejax clips gradients element by element, ours by
their norm. Rejax takes the limit of 500 steps for an end; ours bootstraps there. Advantages are
estimated once per rollout and values clipped on both sides.
"""

import sys

from _peers import REJAX
from _speed_gymnax import REJAX_TASKS
from _speed_table import compare

if __name__ == "__main__":
    description = "Environment steps per second beside Rejax."
    sys.exit(compare(REJAX, REJAX_TASKS, "_speed_gymnax_rejax.py", description))
