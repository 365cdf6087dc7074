"""The set `vllm-graft`: what the layer itself needs from vLLM.

Read in the sources of vLLM 0.27.1, 0.28.0, 0.29.0, 0.30.0, 0.31.0 and 0.32.0; all of these names
and signatures are the same there. The two on `vllm.envs` were read in 0.9.2, 0.11.0, 0.12.0,
0.13.0, 0.17.1, 0.23.0 and 0.26.0 as well; up to 0.11 the key has a fixed list of variables.
"""

from ..declare import PatchSet

patches = PatchSet("vllm-graft")

_HOME = "vllm_graft.builtin.inside"
_READ = ">=0.27.1,<0.33"
_NONE = "None: vLLM offers no extension point for it."

patches.run(
    "vllm.envs",
    f"{_HOME}:register_variables",
    id="env-variables",
    vllm=">=0.9.2,<0.33",
    required=False,
    why="vLLM warns of VLLM_* variables that it does not know, or refuses to start.",
    how="Add the layer's variables to vllm.envs.environment_variables.",
    upstream=_NONE,
    remove="When plugins can register environment variables.",
)

patches.wrap(
    "vllm.envs:compile_factors",
    f"{_HOME}:compile_factors",
    vllm=">=0.12,<0.33",
    required=False,
    why="Every variable in vllm.envs is part of the compile cache's key, so that tracing would "
    "compile again; and the key knows nothing of patches, so that a graph compiled without them "
    "would be served with them.",
    how="Take the layer's variables out, and put the fingerprint of the selected patches in.",
    upstream=_NONE,
    remove="When vLLM's cache key has an extension point.",
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
