"""Programs that `check.py` runs: what other tools know of the same targets.

    python benchmarks/others.py mpat RESULT TARGETS      which targets mpat can fingerprint
    python benchmarks/others.py griffe RESULT TARGETS    load vLLM in griffe, and ask for each

TARGETS is a JSON file with a list; the result is one with an object.
"""

import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from vllm_graft.version import package_folder

OK, MISSING = "ok", "missing"


def ask_mpat(targets: Sequence[str]) -> dict[str, str]:
    """Return `ok`, `missing`, or why mpat can say nothing of a target."""
    return {target: _fingerprinted(target) for target in targets}


def _fingerprinted(target: str) -> str:
    from mpat._errors import TargetNotFound
    from mpat._fingerprint import fingerprint
    from mpat._targets import resolve

    try:
        fingerprint(resolve(dotted(target)))
    except TargetNotFound:
        return MISSING
    except Exception as error:  # whatever importing a module of vLLM's raises
        return f"{type(error).__name__}: {error}".splitlines()[0]
    return OK


def ask_griffe(targets: Sequence[str]) -> dict[str, str]:
    """Load all of vLLM, from its sources alone, and return `ok` or `missing` for each target."""
    import griffe

    logging.disable(logging.CRITICAL)  # thousands of lines on docstrings
    folder = package_folder()
    assert folder is not None
    package = griffe.load("vllm", search_paths=[folder.parent], allow_inspection=False)
    return {target: _held(package, target) for target in targets}


def _held(package: object, target: str) -> str:
    from griffe import AliasResolutionError, CyclicAliasError

    try:
        found = package[dotted(target).removeprefix("vllm.")]  # type: ignore[index]
        if found.is_alias:
            found.final_target  # noqa: B018  raises where the alias leads nowhere
    except AliasResolutionError:  # to a package that was not loaded
        return OK
    except (KeyError, CyclicAliasError):
        return MISSING
    return OK


def dotted(target: str) -> str:
    """Return a target as the others write it."""
    return target.replace(":", ".")


PROGRAMS: dict[str, Callable[[Sequence[str]], dict[str, str]]] = {
    "mpat": ask_mpat,
    "griffe": ask_griffe,
}

if __name__ == "__main__":
    program, result, given = sys.argv[1:]
    answer = PROGRAMS[program](json.loads(Path(given).read_text(encoding="utf-8")))
    Path(result).write_text(json.dumps(answer), encoding="utf-8")
