"""Activation of vllm-graft where `.pth` files are not processed: put this folder on PYTHONPATH.

Python imports one `sitecustomize` only, so this one runs the one that it shadows.
"""

import sys


def _install_sentinel() -> None:
    try:
        from vllm_graft import boot
    except ImportError:  # this folder without the package: nothing to activate
        return
    boot.install("sitecustomize")


def _run_shadowed() -> None:
    """Import the `sitecustomize` behind this one in its place; its errors are for `site`."""
    import os
    from importlib import machinery

    here = os.path.dirname(os.path.realpath(__file__))  # noqa: PTH120 - pathlib costs 5 ms here
    path = [entry for entry in sys.path if os.path.realpath(entry or ".") != here]
    spec = machinery.PathFinder.find_spec(__name__, path)
    if spec is None or spec.loader is None:
        return
    from importlib import util

    module = util.module_from_spec(spec)
    sys.modules[__name__] = module
    spec.loader.exec_module(module)


_install_sentinel()
_run_shadowed()
