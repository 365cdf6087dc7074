"""Which patch fits which vLLM, told from the sources of vLLM alone: nothing of it is imported."""
