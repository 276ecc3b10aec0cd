"""Damaged files and random words of the command line."""

import contextlib
import copy
import dataclasses
import io
import json
import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import nnx_ppo_train as npt
import pytest
from hypothesis import strategies as st
from nnx_ppo_train import _check_training, _checkpoint, _checkpoint_saver
from nnx_ppo_train._checkpoint_files import record_checksum
from nnx_ppo_train.cli import _eval, _main, _resolve, main
from nnx_ppo_train.cli._many_session import ManySession
from nnx_ppo_train.cli._session import Session

from ._checkpoints import first_state, make_config
from ._checkpoints import make_network as small_network
from ._fuzz import ODDITIES, Entry, Reached

RUN = Path(__file__).parent / "fixtures" / "run_version_3"
VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1, 7, 0.5, -0.5, 2**31, 2**63, 10**30, 10**400, float("nan"), float("inf"),
    1e39, 1e-320, "", "x", "1", "łä", "[/x]", "a\0b", "\ud800", "x" * 300, "nnx_ppo_train:none", [],
    [1], [[1, 2], None], ["a"], {}, {"a": 1}, {"schedule": "x"}, {"shape": [1], "dtype": "float32"},
)  # fmt: skip
Place = tuple[Any, ...]


def places(data: Any, above: Place = ()) -> list[Place]:
    """Paths of everything in JSON data."""
    keys = data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ()
    return [path for key in keys for path in ((*above, key), *places(data[key], (*above, key)))]


@dataclasses.dataclass(frozen=True)
class Damage:
    """What happens to a file: changes of its JSON, or of its text where ``cut`` is given."""

    changes: Sequence[tuple[Place, str, Any]]
    cut: tuple[int, bytes] | None
    stamped: bool

    def of(self, data: Any) -> bytes:
        """The damaged file."""
        data = copy.deepcopy(data)
        for place, action, value in self.changes:
            _change(data, place, action, value)
        if self.stamped and isinstance(data, dict) and "checksum" in data:
            with contextlib.suppress(ValueError):  # text that UTF-8 cannot hold
                data["checksum"] = record_checksum(data)
        text = json.dumps(data).encode("utf-8", "surrogatepass")
        if self.cut is None:
            return text
        at, piece = self.cut
        return text[: at % len(text)] + piece + text[at % len(text) + len(piece) :]


def _change(data: Any, place: Place, action: str, value: Any) -> None:
    for key in place[:-1]:
        if not isinstance(data, dict | list):
            return
        try:
            data = data[key]
        except (IndexError, KeyError, TypeError):  # an earlier change took it away
            return
    with contextlib.suppress(IndexError, KeyError, TypeError):
        if action == "remove":
            del data[place[-1]]
        elif action == "add":
            data["zzz"] = value
        else:
            data[place[-1]] = value


def damages(data: Any) -> st.SearchStrategy[Damage]:
    """Strategy of damage to a file with such JSON."""
    change = st.tuples(
        st.sampled_from(places(data)),
        st.sampled_from(("put", "put", "put", "remove", "add")),
        st.sampled_from(VALUES),
    )
    pieces = st.sampled_from((b"", b"[" * 2000, b"\xff", b"\0", b'"', b"}", b"1e999", b"-"))
    cut = st.none() | st.none() | st.tuples(st.integers(0, 10**6), pieces)
    return st.builds(
        Damage, st.lists(change, min_size=1, max_size=3).map(tuple), cut, st.booleans()
    )


class Files:
    """A run of version 3 and a checkpoint of today in a folder of their own."""

    def __init__(self, folder: Path):
        self.run, self.folder = folder / "run", folder
        shutil.copytree(RUN, self.run)
        self.step = next((self.run / "checkpoints").iterdir())
        self.today = folder / "today" / "step_0000000000"
        npt.save_checkpoint(self.today, first_state(), make_config())
        self.network = small_network()
        self.env = npt.make_env("cartpole")

    def damaged(self, file: Path, data: Any, act: Callable[[], Any]) -> Callable[[Damage], Any]:
        """A function that does something with a file that is damaged."""

        def call(damage: Damage) -> None:
            before = file.read_bytes()
            file.write_bytes(damage.of(data))
            try:
                with contextlib.suppress(Reached):
                    act()
            finally:
                file.write_bytes(before)

        return call

    def points(self) -> dict[str, tuple[st.SearchStrategy[Any], Callable[[Any], Any]]]:
        """What reads damaged files: the damage, and what to do with it, by name."""
        record = self.today / "checkpoint.json"
        today = json.loads(record.read_text())
        reads = {
            "load_network": lambda: npt.load_network(self.today, self.network),
            "load_network in part": lambda: npt.load_network(
                self.today, self.network, allow_partial=True
            ),
            "load_checkpoint": lambda: npt.load_checkpoint(self.today, self.network, self.env),
            "load_config": lambda: npt.load_config(self.today),
            "latest_checkpoint": lambda: npt.latest_checkpoint(self.today.parent),
            "best_checkpoint": lambda: npt.best_checkpoint(self.today.parent),
            "init_from": lambda: npt.init_from(self.today, self.network),
        }
        found = {
            f"{name} of a damaged record": (damages(today), self.damaged(record, today, act))
            for name, act in reads.items()
        }
        config, lines = self.run / "config.json", self.run / "metrics.jsonl"
        for name, file in {"config": config, "record": self.step / "checkpoint.json"}.items():
            data = json.loads(file.read_text())
            for command in (["eval"], ["resume", "--total-steps", "500"]):
                run = self.command([command[0], str(self.run), *command[1:]])
                found[f"{command[0]} of a damaged {name}"] = (
                    damages(data), self.damaged(file, data, run)
                )  # fmt: skip
        data = [json.loads(line) for line in lines.read_text().splitlines()]
        found["JSONLinesLogger of damaged lines"] = (
            damages(data), self.damaged(lines, data, lambda: _log(lines))
        )  # fmt: skip
        found["words of the command line"] = (words(self.run), self._said)
        return found

    def command(self, words: list[str]) -> Callable[[], None]:
        return lambda: self._said(words)

    def _said(self, words: list[str]) -> None:
        """Runs the command line; fails unless it ends as it must."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code, told = main(list(words)), True
            except SystemExit as end:
                code, told = end.code, False  # tyro's own frames around what is wrong
            except Reached:
                return
        text = err.getvalue()
        one_line = text.count("\n") == 1 and text.startswith("nnx-ppo: ")
        if "Traceback" in text + out.getvalue() or code not in (0, 2):
            raise AssertionError(f"{words} ended with {code}: {text}")
        if told and code == 2 and not one_line:
            raise AssertionError(f"{words} told not in one line: {text}")

    def entries(self) -> dict[str, Entry]:
        """The functions of checkpoints with arguments of any kind."""
        state = first_state()
        states = {
            f"{field.name}={label}": dataclasses.replace(state, **{field.name: value})
            for field in dataclasses.fields(npt.TrainingState)
            for label, value in {"text": "x", "ones": jnp.ones(2), "set": {1}}.items()
        }
        place = {"today": self.today, "run": self.run, "file": self.today / "checkpoint.json"}
        path = {"path": {**place, "nothing": self.folder / "zzz"}}
        network, env = self.network, self.env
        common = {"path": self.today, "networks": network}

        def saved(path: Any, state: Any, step: Any, **options: Any) -> None:
            npt.make_checkpoint_fn(path, **options)(state, step)

        def logged(path: Any, start: Any, metrics: Any, step: Any) -> None:
            with npt.JSONLinesLogger(path, start) as log:
                log(metrics, step)

        return {
            "save_checkpoint": Entry(
                npt.save_checkpoint,
                {"path": self.folder / "new", "state": state, "config": None,
                 "include_env_state": True},
                {**path, "state": states},
            ),
            "make_checkpoint_fn": Entry(
                saved,
                {"path": self.folder / "new", "state": state, "step": 0, "config": None,
                 "keep": None, "keep_best": None, "keep_every_steps": None,
                 "include_env_state": True},
                {**path, "state": states},
            ),
            "load_checkpoint": Entry(
                npt.load_checkpoint,
                {**common, "env": env, "config": None, "optimizer": None, "allow_partial": False},
                path,
            ),
            "load_network": Entry(npt.load_network, {**common, "allow_partial": False}, path),
            "load_config": Entry(npt.load_config, {"path": self.today}, path),
            "latest_checkpoint": Entry(npt.latest_checkpoint, {"directory": self.folder}),
            "best_checkpoint": Entry(
                npt.best_checkpoint, {"directory": self.today.parent, "metric": "a"}
            ),
            "init_from": Entry(
                npt.init_from, {**common, "take": "*", "allow_partial": False}, path
            ),
            "JSONLinesLogger": Entry(
                logged,
                {"path": self.folder / "log.jsonl", "start": 0, "metrics": {"a": 1.0}, "step": 5},
                {"metrics": {f"of {label}": {"a": value} for label, value in ODDITIES.items()}},
            ),
        }  # fmt: skip


def _log(lines: Path) -> None:
    npt.JSONLinesLogger(lines, 64).close()


FLAGS = (
    "--env", "--network", "--run-dir", "--resume-if-exists", "--total-steps", "--seed", "--seeds",
    "--target-return", "--checkpoint-every-steps", "--checkpoint-every-minutes", "--init-from",
    "--init-take", "--init-freeze", "--profile", "--net.hidden-size", "--net.delay", "--ppo.n-envs",
    "--ppo.learning-rate", "--ppo.logging-level", "--ppo.desired-kl", "--ppo.burn-in", "--trust",
    "--eval.n-envs", "--eval.group-names", "--video.enabled", "--episodes", "--best", "--help",
    "--max-episode-length", "--allow-partial", "--zzz", "-x", "--",
)  # fmt: skip
SAID = (
    "0", "1", "-1", "64", "2.5", "nan", "inf", "1e999", "1e39", "9" * 400, "4294967296", "", " ",
    "x", "łä", "[/x]", "[bold]", "it's", "a\nb", "\udcff", "None", "True", "cartpole", "cartpol",
    "mlp", "lstm", "nnx_ppo_train:PPOConfig", "os:getcwd", "a:b:c", ":", "playground/x", "/",
    ".", "..", "x" * 300, "LOSSES,ALL", "{}", "[1, 2]", "\0",
)  # fmt: skip


def words(run: Path) -> st.SearchStrategy[list[str]]:
    """Strategy of what may be said on the command line."""
    value = st.sampled_from((*SAID, str(run), str(run / "checkpoints")))
    pairs = st.lists(st.tuples(st.sampled_from(FLAGS), value), max_size=2)
    first = st.sampled_from(("train", "train", "eval", "resume", "envs", "tarin", ""))
    bare = st.lists(value, max_size=1)
    return st.builds(
        lambda first, bare, pairs: [first, *bare, *(word for pair in pairs for word in pair)],
        first, bare, pairs,
    )  # fmt: skip


def once(call: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
    """A function that keeps what it returned: most examples ask again for what another asked."""
    kept: dict[Any, Any] = {}

    def called(*arguments: Any) -> Any:
        asked = key(*arguments)
        if asked not in kept:
            kept[asked] = call(*arguments), arguments  # which keeps their ids from being used again
        return kept[asked][0]

    return called


@contextlib.contextmanager
def nothing_runs(folder: Path) -> Iterator[None]:
    """Context in which commands end where a run would begin, and nothing is saved."""

    def reached(*_: Any, **__: Any) -> Any:
        raise Reached

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # Names that no encoding has in captured logs end a process of pytest-xdist.
        patch.setattr(logging.getLogger("nnx_ppo_train"), "disabled", True)
        for module, name, key in (
            (_main, "parse", lambda words: tuple(words)),
            (_resolve, "resolve_env", lambda name: name),
            (_resolve, "resolve_network", lambda run, *_: repr((run.env, run.network, run.net))),
            (_resolve, "check_env", id),
            (
                _resolve,
                "check_training",
                lambda env, _, network, config, optimizer: (id(env), id(network), repr(config)),
            ),
            (
                _check_training,
                "check_boundary",
                lambda env, network, *rest: (type(env), id(network), *rest),
            ),
        ):
            patch.setattr(module, name, once(getattr(module, name), key))
        patch.setattr(_checkpoint.StateFactory, "fresh", reached)  # new episodes, compiled
        patch.setattr(Session, "train", reached)
        patch.setattr(ManySession, "train", reached)
        patch.setattr(_eval, "_values", reached)
        patch.setattr(_main, "use_compilation_cache", lambda: None)
        patch.setattr(_checkpoint, "write_checkpoint", reached)
        patch.setattr(_checkpoint_saver, "BackgroundSave", reached)
        yield
