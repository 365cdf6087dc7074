"""The set `vllm-graft`: what the layer itself needs from vLLM.

Checked against every release of vLLM from 0.9.2 to 0.33.0 (`make check`). Each range begins where
the target first had the form that the patch is for, and ends where the releases do.
"""

from ..declare import PatchSet

patches = PatchSet("vllm-graft")

_HOME = "vllm_graft.builtin.inside"
_RELEASES = ">=0.9.2,<0.34"
_NONE = "None: vLLM offers no extension point for it."

patches.run(
    "vllm.envs",
    f"{_HOME}:register_variables",
    id="env-variables",
    vllm=">=0.9.2,<0.34",
    required=False,
    why="vLLM warns of VLLM_* variables that it does not know, or refuses to start.",
    how="Add the layer's variables to vllm.envs.environment_variables.",
    upstream=_NONE,
    remove="When plugins can register environment variables.",
)

patches.wrap(
    "vllm.envs:compile_factors",
    f"{_HOME}:compile_factors",
    vllm=">=0.12,<0.34",
    required=False,
    why="Every variable in vllm.envs is part of the compile caches' keys, ahead of time and "
    "backend, so that tracing would compile again; and the keys know nothing of patches, so that "
    "a graph compiled without them would be served with them.",
    how="Take the layer's variables out, and put the fingerprint of the selected patches in.",
    upstream=_NONE,
    remove="When vLLM's cache key has an extension point.",
)

patches.wrap(
    "vllm.envs:compute_hash",
    f"{_HOME}:compute_hash",
    vllm=">=0.9.2,<0.12",
    required=False,
    why="The keys of the compile caches, backend and (from 0.11.1 on) ahead of time, know nothing "
    "of patches: a graph compiled without them would be served with them.",
    how="Mix the fingerprint of the selected patches into the hash of the variables.",
    upstream=_NONE,
    remove="When the lowest supported vLLM is 0.12.",
)

patches.wrap(
    "vllm.config.compilation:CompilationConfig.__post_init__ >=0.10.1"
    " | vllm.config:CompilationConfig.__post_init__ <0.10.1",
    f"{_HOME}:own_cache_folder",
    id="compile-cache-dir",
    vllm=">=0.9.2,<0.34",
    required=False,
    why="In a compile cache whose folder the user gives (cache_dir), vLLM compares no key at all.",
    how="Use a folder in it that is named after the fingerprint of the selected patches.",
    upstream=_NONE,
    remove="When vLLM checks what it loads from a cache_dir.",
)

patches.wrap(
    "vllm.model_executor.models.registry:_LazyRegisteredModel._get_cache_filename",
    f"{_HOME}:model_info_file",
    id="model-info-cache",
    vllm=">=0.11,<0.34",
    required=False,
    why="What vLLM has found out about a model class is cached on disk, by a hash of the file that "
    "defines the class: a patched capability flag would be answered from before the patch.",
    how="Put the fingerprint of the selected patches into the name of the cache file.",
    upstream=_NONE,
    remove="When vLLM's model-info cache has an extension point.",
)


_MODELS = "vllm_graft.models.inside"


def _model(target: str, name: str, implementation: str, versions: str, why: str, how: str) -> None:
    patches.wrap(
        target,
        f"{_MODELS}:{implementation}",
        id=name,
        vllm=versions,
        required=False,
        why=why,
        how=how,
        upstream="None: vLLM's registry takes one class for an architecture, not a choice.",
        remove="When an architecture can have several implementations in vLLM.",
    )


_REGISTRY = "vllm.model_executor.models.registry:_ModelRegistry"

_model(
    f"{_REGISTRY}.register_model",
    "model-register",
    "register_model",
    ">=0.9.2,<0.34",
    "A factory is no torch.nn.Module, and vLLM takes no other class; who registers an "
    "architecture last has it, without a word in newer releases.",
    "Take a factory as a lazy string, trace every registration, and warn where one replaces a "
    "factory.",
)
_model(
    f"{_REGISTRY}.inspect_model_cls",
    "model-inspect",
    "inspect_model_cls",
    ">=0.9.2,<0.34",
    "vLLM inspects the class that is registered, and a factory has none of the implementation's "
    "flags.",
    "Show vLLM the implementation that the factory chooses, and give the error of one that cannot "
    "be inspected.",
)
_model(
    f"{_REGISTRY}.resolve_model_cls",
    "model-resolve",
    "resolve_model_cls",
    ">=0.9.2,<0.34",
    "vLLM adapts, caches and builds the class that is registered.",
    "Give vLLM the implementation that the factory chooses.",
)
_model(
    "vllm.model_executor.model_loader.utils:get_model_architecture",
    "model-architecture",
    "get_model_architecture",
    ">=0.9.2,<0.34",
    "vLLM keeps the class of a model by its folder and architecture: another choice for it in the "
    "same process would be answered with the first.",
    "Empty that cache when factories choose otherwise than before.",
)
_model(
    "vllm.engine.arg_utils:EngineArgs.create_engine_config",
    "model-options",
    "create_engine_config",
    ">=0.9.2,<0.34",
    "The registry is asked before vLLM has given the user's additional_config to anything.",
    "Keep it at hand while the configurations are made.",
)
_model(
    "vllm.config.vllm:VllmConfig.__post_init__ >=0.11.1"
    " | vllm.config:VllmConfig.__post_init__ <0.11.1",
    "model-vllm-config",
    "vllm_config_made",
    ">=0.10.1,<0.34",
    "A VllmConfig that is made by hand brings the user's additional_config when its model has "
    "been inspected already.",
    "Ask the factories again.",
)
_model(
    "vllm.config:ModelConfig.__post_init__",
    "model-config",
    "model_config_made",
    ">=0.9.2,<0.10.1",
    "The registry of these releases is not told which model it is asked about.",
    "Keep the model's configuration at hand while it is made.",
)


def _entry(target: str, implementation: str, name: str, moment: str) -> None:
    patches.wrap(
        target,
        f"{_HOME}:{implementation}",
        id=name,
        vllm=_RELEASES,
        required=False,
        why=f"The layer must know when {moment}: patches may be for one role only, and each "
        "process logs how it stands once it has started.",
        how="Tell the layer, then or before call the original.",
        upstream=_NONE,
        remove="When vLLM tells plugins what process they are in.",
    )


_entry(
    "vllm.v1.engine.core:EngineCoreProc.run_engine_core",
    "engine_core",
    "engine-core-process",
    "an EngineCore process begins",
)
_entry(
    "vllm.v1.engine.core:EngineCore.__init__",
    "engine_core_made",
    "engine-core",
    "a process, the main one included, makes an EngineCore",
)
_entry(
    "vllm.v1.engine.core:EngineCoreProc.__init__",
    "started",
    "engine-core-started",
    "an EngineCore process is ready",
)
_entry(
    "vllm.v1.executor.multiproc_executor:WorkerProc.worker_main",
    "worker",
    "worker-process",
    "a worker process begins",
)
_entry(
    "vllm.v1.worker.worker_base:WorkerWrapperBase.__init__ >=0.11.1"
    " | vllm.worker.worker_base:WorkerWrapperBase.__init__ <0.11.1",
    "worker",
    "worker",
    "a process, whatever its executor, makes a worker",
)
_entry(
    "vllm.v1.executor.multiproc_executor:WorkerProc.__init__",
    "started",
    "worker-started",
    "a worker process is ready",
)
_entry(
    "vllm.v1.engine.llm_engine:LLMEngine.__init__",
    "started",
    "llm-engine-started",
    "an engine for offline use is ready",
)
_entry(
    "vllm.v1.engine.async_llm:AsyncLLM.__init__",
    "async_llm",
    "async-llm",
    "an API server connects to its engine",
)
_entry(
    "vllm.v1.engine.coordinator:DPCoordinatorProc.__init__ >=0.10.1"
    " | vllm.v1.engine.coordinator:CoordinatorProc.__init__ <0.10.1",
    "coordinator",
    "coordinator-started",
    "the data-parallel coordinator begins",
)
