"""Code that a run's config names: imported unasked only from the current folder.

A config.json is data of whoever wrote it, yet it names functions to import and call. Nothing is
imported to find out where they are: a parent package would already run.
"""

import importlib
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
from pathlib import Path

from ._errors import UsageError
from ._run_config import RunConfig


def import_folders(run: RunConfig, folder: Path, trusted: bool) -> tuple[str, ...]:
    """Returns the folders from which a run's own code may be imported.

    Args:
      run: what the config of the folder says.
      folder: the run folder.
      trusted: whether the user trusts the code, wherever it lies.

    Returns:
      The config's own folders if the code is trusted; else the current folder alone.

    Raises:
      UsageError: if the config names code outside the current folder, and it is not trusted.
    """
    if trusted:
        return run.import_path
    here = Path.cwd()
    for flag, name in (("env", run.env), ("network", run.network)):
        module = name.partition(":")[0]
        if ":" in name and not _lies_in(here, module, folder):
            raise UsageError(
                f"{folder}: expected code in the current folder or --trust, the run's {flag} is "
                f"{name!r}, which {_whence(run)}; run it from the folder that holds the code, or "
                "add --trust if you trust whoever wrote it: it is run with your rights"
            )
    return (str(here),)


def _whence(run: RunConfig) -> str:
    if not run.import_path:
        return "is not in the current folder"
    return f"would be imported from {', '.join(run.import_path)} or from what is installed"


def _lies_in(here: Path, module: str, folder: Path) -> bool:
    """Whether a module would be imported from below a folder that is first on the import path."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return False
    importlib.invalidate_caches()
    place = here.resolve()
    for depth in range(1, len(parts) + 1):
        full = ".".join(parts[:depth])
        if BuiltinImporter.find_spec(full) or FrozenImporter.find_spec(full):
            return False
        # by the last part alone: of a dotted name the finder looks up the parent's module
        spec = PathFinder.find_spec(parts[depth - 1], [str(place)])
        if spec is None or _is_loaded_from_elsewhere(full, spec.origin):
            return False
        found = Path(spec.origin).parent if spec.origin else place / parts[depth - 1]
        if not _is_own(found, place, folder.resolve()):
            return False
        if spec.submodule_search_locations is None and depth < len(parts):
            return False  # a module, which has no modules of its own
        if spec.origin is not None and Path(spec.origin).resolve().parent != found.resolve():
            return False  # a link to a file elsewhere
        place = found.resolve()
    return True


def _is_own(found: Path, place: Path, folder: Path) -> bool:
    """Whether a folder of code is below another and has nothing to do with the run folder.

    A stranger's archive may hold code beside the run, and name it as a package of folders.
    """
    path = found.resolve()
    if path == place:
        return not path.is_relative_to(folder)
    return path.parent == place and not folder.is_relative_to(path)


def _is_loaded_from_elsewhere(name: str, origin: str | None) -> bool:
    loaded = sys.modules.get(name)
    if loaded is None:
        return False
    file = getattr(loaded, "__file__", None)
    return file is None or origin is None or Path(file).resolve() != Path(origin).resolve()
