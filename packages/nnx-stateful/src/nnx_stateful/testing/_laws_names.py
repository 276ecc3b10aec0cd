"""Law 8: metrics and rollout_extras are nested like the children."""

from collections.abc import Iterator
from typing import Any

from .._protocol import StatefulModule
from .._recording import extract_activations, with_recording
from ._compare import BrokenLawError
from ._trial import Trial


def names_mirror_children(trial: Trial) -> None:
    """Metrics have str keys; a container's metrics and extras have an entry per child.

    A recording copy puts one metric into every module: none of them may get lost on the way up.
    """
    out = with_recording(trial.module)(trial.start, trial.x)
    _check_keys("metrics", out.metrics)
    recorded = extract_activations(out.metrics)
    for path, owner, children in _containers(trial.module, ()):
        for field in ("metrics", "rollout_extras"):
            level = _descend(getattr(out, field), path)
            missing = [name for name in children if not _has(level, name)]
            if missing:
                raise BrokenLawError(
                    f"{field}{_brackets(path)}: expected an entry for each child of "
                    f"{type(owner).__name__}, {list(children)}, but {missing} are missing"
                )
        for name in children:
            where = "/".join((*path, name))
            if where not in recorded:
                raise BrokenLawError(
                    f"metrics{_brackets((*path, name))}: {type(owner).__name__} drops what its "
                    "child reports; pass the child's metrics on under its name"
                )


def _check_keys(what: str, metrics: Any) -> None:
    if not isinstance(metrics, dict):
        raise BrokenLawError(f"{what}: expected a dict, got {type(metrics).__name__}")
    for key, value in metrics.items():
        if not isinstance(key, str):
            raise BrokenLawError(f"{what}: expected keys of type str, got {key!r}")
        if isinstance(value, dict):
            _check_keys(f"{what}[{key!r}]", value)


def _containers(
    module: StatefulModule, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], StatefulModule, dict[str, StatefulModule]]]:
    children = getattr(module, "children", None)
    if type(children) is not dict:
        return
    yield path, module, children
    for name, child in children.items():
        yield from _containers(child, (*path, name))


def _descend(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = tree[name] if _has(tree, name) else None
    return tree


def _has(tree: Any, name: str) -> bool:
    return isinstance(tree, dict) and name in tree


def _brackets(path: tuple[str, ...]) -> str:
    return "".join(f"[{name!r}]" for name in path)
