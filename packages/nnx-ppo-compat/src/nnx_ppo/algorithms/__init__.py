"""PPO under its published paths."""
