"""Patches on what compiled forwards call, and on what vLLM compiles and caches itself."""

from typing import Any

from vllm_graft import PatchSet

patches = PatchSet("effects")

_FIELDS: dict[str, Any] = {
    "vllm": ">=0.27.1,<1",
    "why": "The tests of vllm-graft must see that a patch is in effect.",
    "upstream": "None: vLLM is as it should be.",
    "remove": "Never.",
}
_LAYERS = "vllm.model_executor.layers"

for _kind, _target in (
    ("function", f"{_LAYERS}.utils:cpu_unquantized_gemm"),
    ("method", f"{_LAYERS}.layernorm:RMSNorm.forward_native"),
    ("static", f"{_LAYERS}.rotary_embedding.common:ApplyRotaryEmb.forward_static"),
    ("op", f"{_LAYERS}.activation:SiluAndMul.forward_native"),
):
    patches.wrap(
        _target,
        f"effects.inside:doubled_{_kind}",
        id=f"wrap-{_kind}",
        how="Double the result.",
        **_FIELDS,
    )
    # Below the wrap, where both are selected.
    patches.replace(
        _target,
        f"effects.inside:seven_{_kind}",
        id=f"replace-{_kind}",
        how="Return sevens.",
        **_FIELDS,
    )

patches.wrap(
    "vllm.model_executor.models.llama:LlamaMLP.forward",
    "effects.inside:shifted",
    id="mlp",
    how="Shift what each layer adds, so that other tokens come out.",
    **_FIELDS,
)

patches.set(
    "vllm.config.cache:CacheConfig.block_size",
    64,
    id="default",
    how="Another default of a field.",
    **_FIELDS,
)
patches.set(
    "vllm.config.parallel:ParallelConfig.worker_extension_cls",
    "effects.Extension",
    id="default-in-field",
    how="Another default, in a class that has a __post_init__ of its own.",
    **_FIELDS,
)
patches.add(
    "vllm.config.load:LoadConfig.__post_init__",
    "effects.inside:after_load_config",
    id="post-init",
    how="A __post_init__ where there is none.",
    **_FIELDS,
)
patches.wrap(
    "vllm.config.parallel:ParallelConfig.__post_init__",
    "effects.inside:after_parallel_config",
    id="wrapped-post-init",
    how="More work in a __post_init__ that is there.",
    **_FIELDS,
)
patches.wrap(
    "vllm.config.parallel:ParallelConfig._validate_parallel_config",
    "effects.inside:validated",
    id="validator",
    how="A model validator that notes that it was called.",
    **_FIELDS,
)
patches.run(
    "vllm.entrypoints.openai.api_server",
    "effects.inside:nothing",
    id="server",
    how="Nothing: to be told that `python -m` puts the module out of reach.",
    **_FIELDS,
)
patches.subclass(
    "vllm.v1.core.block_pool:BlockPool",
    "effects.inside:counting_block_pool",
    id="subclass",
    how="A block pool that signs what it is.",
    **_FIELDS,
)
