"""The set `vllm-graft`: what the layer itself needs from vLLM.

Read in the sources of every release of vLLM from 0.9.2 to 0.33.0. Each range begins where the
target first had the form that the patch is for, and ends where the reading ends.
"""

from ..declare import PatchSet

patches = PatchSet("vllm-graft")

_HOME = "vllm_graft.builtin.inside"
_READ = ">=0.27.1,<0.34"
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


def _entry(target: str, implementation: str, name: str, moment: str) -> None:
    patches.wrap(
        target,
        f"{_HOME}:{implementation}",
        id=name,
        vllm=_READ,
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
    "engine_core",
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
    "vllm.v1.worker.worker_base:WorkerWrapperBase.__init__",
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
    "vllm.v1.engine.coordinator:DPCoordinatorProc.__init__",
    "coordinator",
    "coordinator-started",
    "the data-parallel coordinator begins",
)
