"""The command line: `nnx-ppo train`, `eval`, `resume` and `envs`."""
