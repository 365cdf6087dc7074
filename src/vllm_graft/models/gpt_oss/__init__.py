"""GPT-OSS: experts in MXFP4, as the checkpoints have them, or in BF16."""
