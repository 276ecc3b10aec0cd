"""Our algorithm as nnx-ppo published it, for comparisons of equal work."""

from typing import Any

from nnx_ppo_train import PPOConfig

_PUBLISHED = {
    "learning_rate": 1e-4,
    "gradient_clipping": None,
    "target_kl": None,
    "recompute_advantages": True,
    "normalize_values": False,
}


def as_published(**options: Any) -> PPOConfig:
    """Returns a config with the published defaults, of a commit that may not have all of them."""
    known = PPOConfig.__dataclass_fields__
    published = {name: value for name, value in _PUBLISHED.items() if name in known}
    return PPOConfig(**(published | options))
