"""`python -m vllm_graft` is `vllm-graft`."""

from .cli import script

script()
