"""Every field of every config refuses what it cannot mean, and says what to write instead."""

import dataclasses
import math

import pytest
from nnx_ppo_train import EvalConfig, LoggingLevel, PPOConfig, TrainConfig, VideoConfig

CONFIGS = (PPOConfig, EvalConfig, VideoConfig, TrainConfig)

# what is 0 by default and counts
COUNT_FROM_ZERO = [
    (-3, ValueError, "whole number of at least 0, got -3; the nearest legal value is 0"),
    (2.0, TypeError, "expected a whole number .*, got 2.0"),
    (True, TypeError, "expected a whole number .*, got True"),
    (None, TypeError, "expected a whole number .*, got None"),
]
COUNT = [
    (0, ValueError, "whole number of at least 1, got 0; the nearest legal value is 1"),
    (-3, ValueError, "got -3; the nearest legal value is 1"),
    (2.0, TypeError, "expected a whole number .*, got 2.0"),
    (math.nan, TypeError, "expected a whole number .*, got nan"),
    (True, TypeError, "expected a whole number .*, got True"),
    ("8", TypeError, "expected a whole number .*, got '8'"),
    (None, TypeError, "expected a whole number .*, got None"),
]
POSITIVE = [
    (0.0, ValueError, "finite number above 0.0, got 0.0; use one above 0.0"),
    (-1, ValueError, "got -1; use one above 0.0"),
    (math.nan, ValueError, "got nan; give a finite one"),
    (math.inf, ValueError, "got inf; give a finite one"),
    ("1e-3", TypeError, "expected a number .*, got '1e-3'"),
    (True, TypeError, "expected a number .*, got True"),
]
NOT_NONE = [(None, TypeError, "expected a number .*, got None")]
POSITIVE_OR_NONE = [
    (0.0, ValueError, "got 0.0; use one above 0.0, or None"),
    *POSITIVE[1:],
]
FRACTION = [
    (-0.1, ValueError, "at least 0.0 and at most 1.0, got -0.1; the nearest legal value is 0.0"),
    (1.5, ValueError, "got 1.5; the nearest legal value is 1.0"),
    (math.nan, ValueError, "got nan; give a finite one"),
    ("1", TypeError, "expected a number .*, got '1'"),
    *NOT_NONE,
]
WEIGHT = [
    (-1.0, ValueError, "at least 0.0, got -1.0; the nearest legal value is 0.0"),
    (math.nan, ValueError, "got nan; give a finite one"),
    ([1.0], TypeError, r"expected a number .*, got \[1.0\]"),
    *NOT_NONE,
]
YES_OR_NO = [
    (1, TypeError, "expected True or False, got 1"),
    ("yes", TypeError, "expected True or False, got 'yes'"),
    (None, TypeError, "expected True or False, got None"),
]
LEVEL = [
    ("LOSSES", TypeError, "expected LoggingLevel, such as LoggingLevel.BASIC, got 'LOSSES'"),
    (1, TypeError, "expected LoggingLevel, .* got 1"),
    (None, TypeError, "expected LoggingLevel, .* got None"),
]
PERCENTILES = [
    ((0, 101), ValueError, r"from 0 to 100, got \(0, 101\); the nearest legal value is \(0, 100\)"),
    ((-1,), ValueError, r"the nearest legal value is \(0,\)"),
    ((math.nan,), ValueError, "from 0 to 100, got"),
    ([0, 100], TypeError, r"None or a tuple of numbers from 0 to 100, got \[0, 100\]"),
    (50, TypeError, "None or a tuple of numbers"),
    ((True,), TypeError, "None or a tuple of numbers"),
]

BAD = {
    PPOConfig: {
        "n_envs": [*COUNT, (10, ValueError, "multiple of n_minibatches=4")],
        "rollout_length": COUNT,
        "total_steps": COUNT,
        "gae_lambda": FRACTION,
        "discounting_factor": [
            *FRACTION,
            ({}, TypeError, "a dict of numbers by reward key"),
            ({1: 0.9}, TypeError, "a dict of numbers by reward key"),
        ],
        "clip_range": [*POSITIVE, *NOT_NONE],
        "learning_rate": [*POSITIVE, *NOT_NONE],
        "normalize_advantages": YES_OR_NO,
        "combine_advantages": YES_OR_NO,
        "n_epochs": COUNT,
        "n_minibatches": [*COUNT, (3, ValueError, "n_envs: expected a multiple of n_minibatches")],
        "critic_loss_weight": WEIGHT,
        "gradient_clipping": POSITIVE_OR_NONE,
        "weight_decay": POSITIVE_OR_NONE,
        "logging_level": LEVEL,
        "logging_percentiles": PERCENTILES,
        "learning_rate_schedule": [
            ("cosine", ValueError, "expected one of 'constant', 'linear', got 'cosine'"),
            (None, ValueError, "expected one of 'constant', 'linear', got None"),
        ],
        "desired_kl": POSITIVE_OR_NONE,
        "target_kl": POSITIVE_OR_NONE,
        "entropy_scale": WEIGHT,
        "entropy_schedule": [("cosine", ValueError, "expected one of 'constant', 'linear'")],
        "value_clip_range": POSITIVE_OR_NONE,
        "huber_delta": POSITIVE_OR_NONE,
        "recompute_advantages": YES_OR_NO,
        "normalize_over": [
            ("batch", ValueError, "expected one of 'minibatch', 'rollout', None, got 'batch'"),
        ],
        "reward_scaling": [*POSITIVE, *NOT_NONE],
        "normalize_values": YES_OR_NO,
        "normalize_rewards": YES_OR_NO,
        "bptt_length": [
            *[case for case in COUNT if case[0] is not None],
            (3, ValueError, r"expected a divisor of 20 .* got 3; the nearest legal value is 2"),
        ],
        "burn_in": [
            *COUNT_FROM_ZERO,
            (20, ValueError, "fewer steps than rollout_length=20 .* nearest legal value is 19"),
        ],
        "truncation": [
            ("end", ValueError, "expected one of 'bootstrap', 'mask', got 'end'"),
            (None, ValueError, "expected one of 'bootstrap', 'mask', got None"),
        ],
        "env_resets": [("new", ValueError, "expected one of 'pool', 'fresh', got 'new'")],
        "nonfinite": [
            ("warn", ValueError, "expected one of 'skip', 'raise', 'ignore', got 'warn'")
        ],
        "weight_decay_mask": [
            ("biases", ValueError, "expected one of 'kernels', 'all', got 'biases'"),
            (None, ValueError, "expected one of 'kernels', 'all', got None"),
        ],
    },
    EvalConfig: {
        "enabled": YES_OR_NO,
        "every_steps": COUNT,
        "n_envs": COUNT,
        "max_episode_length": [
            (0, ValueError, "of at least 1 and at most 2147483647, got 0"),
            (2**31, ValueError, "got 2147483648; the nearest legal value is 2147483647"),
            *COUNT[1:],
        ],
        "seeds": [("new", ValueError, "expected one of 'fixed', 'fresh', got 'new'")],
        "deterministic": YES_OR_NO,
        "logging_level": LEVEL,
        "logging_percentiles": PERCENTILES,
        "group_by": [
            (1, TypeError, "expected str or None, such as 'terrain', got 1"),
            ("terrain", ValueError, "expected a key of info together with group_names"),
        ],
        "group_names": [
            (["a"], TypeError, "expected a tuple of str"),
            ((1,), TypeError, "expected a tuple of str"),
            (("a",), ValueError, "expected a key of info together with group_names"),
        ],
    },
    VideoConfig: {
        "enabled": YES_OR_NO,
        "every_steps": COUNT,
        "episode_length": COUNT,
        "render_kwargs": [
            (None, TypeError, "expected dict, such as {'height': 480}, got None"),
            ([480, 640], TypeError, "expected dict"),
        ],
    },
    TrainConfig: {
        "ppo": [
            (
                {"n_envs": 8},
                TypeError,
                r"expected PPOConfig, such as PPOConfig\(n_envs=64\), got",
            ),
            (EvalConfig(), TypeError, "expected PPOConfig"),
            (PPOConfig, TypeError, "expected PPOConfig"),
        ],
        "eval": [(False, TypeError, r"expected EvalConfig, such as EvalConfig\(n_envs=8\)")],
        "video": [(None, TypeError, r"expected VideoConfig, such as VideoConfig\(enabled=True")],
        "seed": [
            (-1, ValueError, "of at least 0 and at most 4294967295, got -1; .* is 0"),
            (2**32, ValueError, "got 4294967296; the nearest legal value is 4294967295"),
            (1.5, TypeError, "expected a whole number .*, got 1.5"),
        ],
        "checkpoint_every_minutes": POSITIVE_OR_NONE,
        "checkpoint_every_steps": COUNT,
        "target_return": [
            (math.inf, ValueError, "expected a finite number, got inf; give a finite one"),
            ("450", TypeError, "expected a number .*, got '450'"),
        ],
    },
}

# nnx-ppo 0.3.0
PUBLISHED = {
    PPOConfig: {
        "n_envs": 256,
        "rollout_length": 20,
        "total_steps": 512_000,
        "gae_lambda": 0.95,
        "discounting_factor": 0.99,
        "clip_range": 0.2,
        "learning_rate": 1e-3,
        "normalize_advantages": True,
        "combine_advantages": False,
        "n_epochs": 4,
        "n_minibatches": 4,
        "critic_loss_weight": 1.0,
        "gradient_clipping": None,
        "weight_decay": None,
        "logging_level": LoggingLevel.LOSSES,
        "logging_percentiles": None,
    },
    EvalConfig: {
        "enabled": True,
        "every_steps": 50_000,
        "n_envs": 64,
        "max_episode_length": 1000,
        "logging_level": LoggingLevel.NONE,
        "logging_percentiles": (0, 25, 50, 75, 100),
    },
    VideoConfig: {
        "enabled": False,
        "every_steps": 200_000,
        "episode_length": 1000,
        "render_kwargs": {"height": 480, "width": 640},
    },
    TrainConfig: {
        "ppo": PPOConfig(),
        "eval": EvalConfig(),
        "video": VideoConfig(),
        "seed": 17,
        "checkpoint_every_steps": 500_000,
    },
}
PUBLISHED_LEVELS = {
    "LOSSES", "CRITIC_EXTRA", "ACTOR_EXTRA", "ROLLOUT_STATS", "ROLLOUT_OBS", "ENV_METRICS",
    "NETWORK_METRICS", "GRAD_NORM", "WEIGHTS", "THROUGHPUT", "BASIC", "ALL", "NONE",
}  # fmt: skip


@pytest.mark.parametrize("config", CONFIGS)
def test_bad_values_are_listed_for_every_field(config):
    assert set(BAD[config]) == {field.name for field in dataclasses.fields(config)}


@pytest.mark.parametrize(
    ("config", "field", "value", "error", "match"),
    [
        pytest.param(config, field, *case, id=f"{config.__name__}.{field}={case[0]!r:.20}")
        for config, fields in BAD.items()
        for field, cases in fields.items()
        for case in cases
    ],
)
def test_bad_value_is_refused(config, field, value, error, match):
    with pytest.raises(error, match=match) as caught:
        config(**{field: value})
    message = str(caught.value)
    assert message.startswith((f"{config.__name__}.{field}: ", "PPOConfig.n_envs: "))


@pytest.mark.parametrize(
    ("n_envs", "n_minibatches", "nearest"), [(10, 4, 8), (11, 4, 12), (1, 4, 4), (7, 3, 6)]
)
def test_indivisible_n_envs_names_the_nearest_legal_value(n_envs, n_minibatches, nearest):
    with pytest.raises(ValueError, match=f"got {n_envs}; the nearest legal value is {nearest}$"):
        PPOConfig(n_envs=n_envs, n_minibatches=n_minibatches)
    PPOConfig(n_envs=nearest, n_minibatches=n_minibatches)


@pytest.mark.parametrize("config", CONFIGS)
def test_published_fields_are_there_with_defaults_that_learn(config):
    fields = {field.name for field in dataclasses.fields(config)}
    assert set(PUBLISHED[config]) <= fields
    made = config()
    assert {name: getattr(made, name) for name in PUBLISHED[config]} == PUBLISHED[config]


def test_published_logging_levels_are_there():
    assert set(LoggingLevel.__members__) == PUBLISHED_LEVELS
    assert LoggingLevel.BASIC == LoggingLevel.LOSSES
    assert LoggingLevel.ROLLOUT_OBS not in LoggingLevel.ALL
    assert (LoggingLevel.ALL | LoggingLevel.ROLLOUT_OBS) == ~LoggingLevel.NONE
    assert not LoggingLevel.NONE


@pytest.mark.parametrize(
    "legal",
    [
        {"gae_lambda": 0, "discounting_factor": 1},
        {"gae_lambda": 1.0, "discounting_factor": 0.0, "critic_loss_weight": 0.0},
        {"total_steps": 2**40, "n_envs": 1, "n_minibatches": 1},
        {"gradient_clipping": 0.5, "weight_decay": 1e-2},
        {"logging_level": LoggingLevel.ALL, "logging_percentiles": (0, 2.5, 100)},
        {"logging_percentiles": ()},
        {"truncation": "mask", "env_resets": "fresh"},
    ],
)
def test_values_at_the_bounds_are_taken(legal):
    made = PPOConfig(**legal)
    assert {name: getattr(made, name) for name in legal} == legal


def test_largest_seed_is_taken():
    assert TrainConfig(seed=2**32 - 1).seed == 2**32 - 1


@pytest.mark.parametrize("config", CONFIGS)
def test_config_is_frozen_and_keyword_only(config):
    name = dataclasses.fields(config)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError, match=name):
        setattr(config(), name, None)
    with pytest.raises(TypeError, match="positional"):
        config(None)


def test_replacing_a_field_validates_again():
    with pytest.raises(ValueError, match=r"PPOConfig\.clip_range"):
        dataclasses.replace(PPOConfig(), clip_range=-0.2)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (
            {"discounting_factor": {"a": 1.5}},
            r"discounting_factor\['a'\]: .* at most 1.0, got 1.5; the nearest legal value is 1.0",
        ),
        (
            {"learning_rate": lambda count: 1e-3, "learning_rate_schedule": "linear"},
            "learning_rate_schedule: expected 'constant' where learning_rate is a schedule itself",
        ),
        (
            {"entropy_scale": lambda count: 1.0, "entropy_schedule": "linear"},
            "entropy_schedule: expected 'constant' where entropy_scale is a schedule itself",
        ),
        (
            {"normalize_over": "rollout", "normalize_advantages": False},
            "normalize_over: 'rollout' has no effect with normalize_advantages=False",
        ),
        (
            {"critic_loss_weight": 0.0, "value_clip_range": 0.2},
            "value_clip_range: expected None where critic_loss_weight is 0",
        ),
        (
            {"critic_loss_weight": 0, "huber_delta": 0.2},
            "huber_delta: expected None where critic_loss_weight is 0",
        ),
        (
            {"n_epochs": 1, "n_minibatches": 1, "target_kl": 0.1},
            "target_kl: expected None where an iteration is one update",
        ),
        (
            {"n_epochs": 1, "n_minibatches": 1, "desired_kl": 0.1},
            "desired_kl: expected None where an iteration is one update",
        ),
        (
            {"normalize_over": "rollout", "recompute_advantages": True},
            "normalize_over: expected 'minibatch' where recompute_advantages=True",
        ),
        (
            {"normalize_values": False, "normalize_rewards": True, "reward_scaling": 0.1},
            "reward_scaling: expected 1.0 where normalize_rewards=True",
        ),
        ({"reward_scaling": 0.1}, "reward_scaling: expected 1.0 where normalize_values=True"),
        (
            {"normalize_rewards": True},
            "normalize_rewards: expected False where normalize_values=True",
        ),
        (
            {"burn_in": 4, "bptt_length": 5},
            r"bptt_length: expected a divisor of 16 \(rollout_length - burn_in\), got 5; .* is 4",
        ),
    ],
)
def test_combination_without_meaning_is_refused(options, match):
    with pytest.raises(ValueError, match=f"PPOConfig.{match}"):
        PPOConfig(**options)


def test_target_return_without_evaluation_is_refused():
    with pytest.raises(ValueError, match=r"target_return: expected None where eval.enabled=False"):
        TrainConfig(eval=EvalConfig(enabled=False), target_return=1.0)


@pytest.mark.parametrize(
    "legal",
    [
        {"burn_in": 4, "bptt_length": 4},
        {"bptt_length": 20},
        {"normalize_over": "rollout", "recompute_advantages": False},
        {"discounting_factor": {"left": 0.9, "right": 1.0}},
        {"learning_rate": lambda count: 1e-3, "entropy_scale": lambda count: 0.5},
        {"value_clip_range": 0.2, "huber_delta": 1.0, "target_kl": 0.1, "desired_kl": 0.01},
    ],
)
def test_combination_with_meaning_is_taken(legal):
    made = PPOConfig(**legal)
    assert {name: getattr(made, name) for name in legal} == legal
