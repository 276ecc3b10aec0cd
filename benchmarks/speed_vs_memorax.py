"""Environment steps per second of recurrent PPO beside memorax, first compilation and memory.

Run with `uv run python benchmarks/speed_vs_memorax.py`. Both sides train on gymnax's CartPole-v1
with 512 environments, rollouts of 32 steps and 4 epochs of 4 minibatches, in the environment of the
peer that uv makes below `.cache/peers`; their processes take turns (see `_turns.py`). As memorax
has it, actor and critic are two networks, each a dense layer of 128 (swish), an LSTM or a GRU of
128 and a read-out; minibatches are whole rollouts of some environments, and advantages are
estimated and normalised once per rollout.

What differs in the work: memorax updates critic and actor one after the other with an optimiser
each, ours both at once. Memorax returns rewards, ends and losses of all steps, ours losses of each
iteration, which are fetched and handed to a function. Memorax takes the limit of 500 steps for an
end; ours bootstraps there. Its GRU (Flax Linen's) has one vector of biases more than ours.
"""

import sys

from _peers import MEMORAX
from _speed_gymnax import MEMORAX_TASKS
from _speed_table import compare

if __name__ == "__main__":
    description = "Environment steps per second of recurrent networks beside memorax."
    sys.exit(compare(MEMORAX, MEMORAX_TASKS, "_speed_gymnax_memorax.py", description))
