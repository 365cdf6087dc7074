"""Llama 3 and its draft models: linear layers in BF16 or in MXFP4."""
