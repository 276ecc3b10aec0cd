"""Comparison of a checkpoint's leaves with those that a network, environment and config ask for."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ._checkpoint_leaves import describe, of_episodes, of_network
from ._migrations import stand_ins

_LISTED = 8  # problems that are told one by one; more are grouped
_CAUSES = {
    "params": "the network differs",
    "variables": "the network differs",
    "optimizer": "the parameters, the optimizer settings of the config (gradient_clipping, "
    "weight_decay) or `optimizer` differ",
    "network_states": "the network's carry differs",
    "env_states": "the environment differs",
    "values": "the config's normalize_values or the environment's rewards differ",
    "rewards": "the config's normalize_rewards or the environment's rewards differ",
}


@dataclasses.dataclass(frozen=True)
class Problem:
    """A leaf that a checkpoint has otherwise than it is wanted.

    Attributes:
      name: its name.
      expected: dtype and shape that are wanted, "nothing" if the leaf is not.
      got: dtype and shape in the checkpoint, "nothing" if it is not there.
    """

    name: str
    expected: str
    got: str

    @property
    def group(self) -> str:
        """First part of the name: params, variables, optimizer and so on."""
        return _group(self.name)


@dataclasses.dataclass(frozen=True)
class Match:
    """The outcome of a comparison.

    Attributes:
      sources: by the name of every wanted leaf that the checkpoint serves the name of the saved
        leaf, or None for zeros.
      problems: the leaves that differ.
      new_episodes: whether the episodes under way are left out, for they were not saved or have
        another number of environments.
    """

    sources: dict[str, str | None]
    problems: list[Problem]
    new_episodes: bool

    def without_misfits(self) -> "Match":
        """The same with only those groups of leaves that can be used although others differ.

        Parameters and variables count one by one. Everything else is of use as a whole: moments of
        an optimizer belong to all parameters, and rows of episodes to each other.
        """
        misfits = {problem.group for problem in self.problems}
        if misfits & {"params"}:
            misfits.add("optimizer")
        of_episodes_differ = any(of_episodes(problem.name) for problem in self.problems)
        sources = {
            name: source
            for name, source in self.sources.items()
            if of_network(name) or _group(name) not in misfits
        }
        return Match(sources, self.problems, self.new_episodes or of_episodes_differ)


def match_leaves(
    saved: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Any], written_as: int
) -> Match:
    """Compares saved leaves with wanted ones.

    Args:
      saved: descriptions by name.
      wanted: leaves, or their shapes, by name.
      written_as: version of the checkpoint: what later versions added has stand-ins.
    """
    before, now = _rows(saved), _rows({name: describe(leaf) for name, leaf in wanted.items()})
    new_episodes = before != now
    absent = before is None and now is not None
    stands = stand_ins(saved, wanted, written_as)
    sources: dict[str, str | None] = {}
    problems = []
    for name in dict.fromkeys([*wanted, *saved]):
        if of_episodes(name) and absent:
            continue
        if name in stands:
            sources[name] = stands[name]
            continue
        rows = (now, before) if new_episodes and of_episodes(name) else (None, None)
        expected = _text(describe(wanted[name]), rows[0]) if name in wanted else "nothing"
        got = _text(saved[name], rows[1]) if name in saved else "nothing"
        if expected != got:
            problems.append(Problem(name, expected, got))
        elif not (new_episodes and of_episodes(name)):
            sources[name] = name
    return Match(sources, problems, new_episodes)


def told(problems: Iterable[Problem]) -> str:
    """Names all problems; many are grouped by what is the matter with them."""
    problems = list(problems)
    if len(problems) <= _LISTED:
        return "; ".join(f"{p.name}: expected {p.expected}, got {p.got}" for p in problems)
    missing = [p.name for p in problems if p.got == "nothing"]
    extra = [p.name for p in problems if p.expected == "nothing"]
    other = [p for p in problems if "nothing" not in (p.expected, p.got)]
    parts = [f"{p.name}: expected {p.expected}, got {p.got}" for p in other]
    if missing:
        parts.append(f"expected but not in the checkpoint: {', '.join(missing)}")
    if extra:
        parts.append(f"in the checkpoint but not expected: {', '.join(extra)}")
    return "; ".join(parts)


def causes(problems: Iterable[Problem]) -> str:
    """Likely causes of problems, by their groups."""
    found = {_CAUSES[p.group]: None for p in problems if p.group in _CAUSES}
    return "; ".join(found)


def _group(name: str) -> str:
    return name.lstrip(".").replace("[", "/").replace(".", "/").split("/")[0]


def _rows(leaves: Mapping[str, Mapping[str, Any]]) -> int | None:
    """Number of environments, None where no episodes under way are among the leaves."""
    for name in ("tally/lengths", ".tally.lengths"):
        if name in leaves:
            return next(iter(leaves[name]["shape"]), None)
    return None


def _text(leaf: Mapping[str, Any], rows: int | None) -> str:
    """Dtype and shape; a leading axis of ``rows`` environments as "envs"."""
    shape = [str(size) for size in leaf["shape"]]
    if rows is not None and leaf["shape"][:1] == [rows]:
        shape[0] = "envs"
    return f"{leaf['dtype']}[{', '.join(shape)}]"
