"""PPO for stateful networks: samplers, adapter, rollout, loss, loop, environments."""

from ._adapter import PPOAdapter
from ._boundary import check_boundary
from ._callbacks import ScaleLearningRate, Stop, stop_at_return
from ._checkpoint import (
    best_checkpoint,
    latest_checkpoint,
    load_checkpoint,
    load_config,
    load_network,
    save_checkpoint,
)
from ._checkpoint_saver import CheckpointSaver, make_checkpoint_fn
from ._config import EvalConfig, TrainConfig, VideoConfig
from ._env_check import check_env
from ._episode_recording import record_episode
from ._evaluation import deterministic, eval_rollout
from ._gae import gae
from ._init_from import freeze, init_from, parameter_paths
from ._json_lines import JSONLinesLogger
from ._logging_level import LoggingLevel
from ._loss import ppo_loss
from ._many import ManyResult, train_ppo_many
from ._nonfinite import NonFiniteError
from ._ppo_config import PPOConfig
from ._reward_normalizer import RewardNormalizer
from ._rollout import RolloutOptions, unroll_env
from ._sweep import Member
from ._train import train_ppo
from ._types import PPONetworkOutput, TrainingState, TrainResult, Transition, VideoData
from .envs import list_envs, make_env
from .samplers import (
    ActionSampler,
    BernoulliSampler,
    BetaSampler,
    CategoricalSampler,
    MultiCategoricalSampler,
    NormalSampler,
    NormalTanhSampler,
)
from .verification import (
    ReplayDeviation,
    ReplayError,
    ReplayReport,
    ReplayStage,
    verify_replay,
)
from .wrappers import EpisodeWrapper, RewardScalingWrapper

__all__ = [
    "ActionSampler",
    "BernoulliSampler",
    "BetaSampler",
    "CategoricalSampler",
    "CheckpointSaver",
    "EpisodeWrapper",
    "EvalConfig",
    "JSONLinesLogger",
    "LoggingLevel",
    "ManyResult",
    "Member",
    "MultiCategoricalSampler",
    "NonFiniteError",
    "NormalSampler",
    "NormalTanhSampler",
    "PPOAdapter",
    "PPOConfig",
    "PPONetworkOutput",
    "ReplayDeviation",
    "ReplayError",
    "ReplayReport",
    "ReplayStage",
    "RewardNormalizer",
    "RewardScalingWrapper",
    "RolloutOptions",
    "ScaleLearningRate",
    "Stop",
    "TrainConfig",
    "TrainResult",
    "TrainingState",
    "Transition",
    "VideoConfig",
    "VideoData",
    "best_checkpoint",
    "check_boundary",
    "check_env",
    "deterministic",
    "eval_rollout",
    "freeze",
    "gae",
    "init_from",
    "latest_checkpoint",
    "list_envs",
    "load_checkpoint",
    "load_config",
    "load_network",
    "make_checkpoint_fn",
    "make_env",
    "parameter_paths",
    "ppo_loss",
    "record_episode",
    "save_checkpoint",
    "stop_at_return",
    "train_ppo",
    "train_ppo_many",
    "unroll_env",
    "verify_replay",
]
