"""`python -m vllm_graft` is `vllm-graft`."""

from .cli import main

main(prog_name="vllm-graft")
