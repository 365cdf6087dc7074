"""Activation of vllm-graft where `.pth` files are not processed: put this folder on PYTHONPATH.

Python imports one `sitecustomize` only, so this one runs the one that it shadows.
"""

import os
import sys


def _install_sentinel() -> None:
    if os.environ.get("VLLM_GRAFT") == "0":
        return
    try:
        from vllm_graft import boot
    except ImportError:  # this folder without the package: nothing to activate
        return
    boot.install("sitecustomize")


def _run_shadowed() -> None:
    """Import the `sitecustomize` behind this one in its place; its errors are for `site`."""
    from importlib import machinery

    spec = machinery.PathFinder.find_spec(__name__, _path_behind())
    if spec is None or spec.loader is None:
        return
    from importlib import util

    module = util.module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)


def _path_behind() -> "list[str]":
    """Return the part of the path behind this folder: each of several stubs runs the next."""
    here = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib costs 5 ms here
    places = [os.path.realpath(entry or ".") for entry in sys.path]
    return sys.path[places.index(here) + 1 :] if here in places else sys.path


_install_sentinel()
_run_shadowed()
