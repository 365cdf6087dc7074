"""Which architectures have a factory: the built-in ones, and those of installed distributions."""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..declare import PatchSet
from ..entry_points import EntryPoint
from ..errors import BrokenSetError
from ..patch import Patch
from ..target import is_lazy
from .upstream import REGISTRY

GROUP = "vllm_graft.models"
"""The entry point group in which distributions name factories, by architecture."""

SET = "models"
"""The patch set in which every factory is a patch of vLLM's registry."""

ORIGIN = "vllm-graft (built in)"


@dataclass(frozen=True)
class Model:
    """An architecture, the lazy `"module:Class"` of its factory, and who brings it.

    `models/<name>` selects it in `VLLM_GRAFT_PATCHES`.
    """

    architecture: str
    factory: str
    name: str
    origin: str = ORIGIN

    @property
    def id(self) -> str:
        """The id of the patch that registers the factory."""
        return f"{SET}/{self.name}"


_ARCHITECTURE = re.compile(r"[A-Za-z]\w*", re.ASCII)
_HOME = "vllm_graft.models"
BUILTIN_MODELS = (
    Model("GptOssForCausalLM", f"{_HOME}.gpt_oss.factory:GptOssForCausalLM", "gpt_oss"),
    Model("LlamaForCausalLM", f"{_HOME}.llama3.factory:LlamaForCausalLM", "llama3"),
    Model(
        "Eagle3LlamaForCausalLM",
        f"{_HOME}.llama3.eagle3:Eagle3LlamaForCausalLM",
        "eagle3_llama",
    ),
)


def get_models(entry_points: Iterable[EntryPoint] | None = None) -> tuple[Model, ...]:
    """Return the architectures that have a factory, without importing any factory.

    A distribution's factory takes the place of the built-in one of its architecture. Raises
    `BrokenSetError` where two distributions have one, or an entry point names no class.
    """
    if entry_points is None:
        from importlib import metadata

        entry_points = metadata.entry_points(group=GROUP)
    models = {model.architecture: model for model in BUILTIN_MODELS}
    for entry_point in sorted(set(entry_points), key=lambda found: (found.name, found.value)):
        _check(entry_point, models.get(entry_point.name))
        models[entry_point.name] = _model(entry_point, models)
    return tuple(models.values())


def models_set(models: Iterable[Model]) -> PatchSet:
    """Return the patch set that registers factories when vLLM has imported its registry."""
    patches = PatchSet(SET)
    for model in models:
        patches.run(
            REGISTRY,
            Registration(model),
            id=model.name,
            vllm=">=0.9.2" if model.origin != ORIGIN else ">=0.27.1,<0.34",
            required=False,
            why=f"{model.architecture} has several implementations, and the right one depends on "
            "the platform and on what the user asks for; vLLM's registry holds one.",
            how=f"Register the factory {model.factory} of {model.origin}, which the patches "
            "vllm-graft/model-* resolve to an implementation.",
            upstream="None: vLLM's registry has no extension point for a choice.",
            remove="When vLLM has one, or when one implementation is left.",
        )
    return patches


@dataclass(frozen=True)
class Registration:
    """What the patch of a model does to vLLM's registry."""

    model: Model

    def __call__(self, registry: object) -> None:
        """Register the factory."""
        from .inside import register

        register(self.model, registry)

    def __repr__(self) -> str:
        return f"{self.model.factory} of {self.model.origin}"


def of_others(patch: Patch) -> bool:
    """Tell whether a patch registers a factory that another distribution brings."""
    made = patch.implementation
    return isinstance(made, Registration) and made.model.origin != ORIGIN


def _check(entry_point: EntryPoint, before: Model | None) -> None:
    problem = remedy = ""
    if not is_lazy(entry_point.value) or not _ARCHITECTURE.fullmatch(entry_point.name):
        problem = "does not name a factory"
        remedy = "Write Architecture = 'package.module:Class'"
    elif before is not None and before.origin != ORIGIN:
        problem = f"claims an architecture that {before.origin} has the factory {before.factory} of"
        remedy = "Uninstall one of the two"
    if problem:
        raise BrokenSetError(
            f"the entry point {entry_point.name!r} = {entry_point.value!r} (group {GROUP!r}, "
            f"{origin(entry_point)}) {problem}. {remedy}. To go on without any factory: "
            f"VLLM_GRAFT_PATCHES='-{SET}/*'."
        )


def _model(entry_point: EntryPoint, models: dict[str, Model]) -> Model:
    before = models.get(entry_point.name)
    if before is not None:
        return replace(before, factory=entry_point.value, origin=origin(entry_point))
    names = _names(entry_point.name)
    taken = {model.name for model in models.values()}
    name = next(name for name in names if name not in taken)
    return Model(entry_point.name, entry_point.value, name, origin(entry_point))


def _names(architecture: str) -> Iterator[str]:
    """Yield names for an architecture, as modules are named, the best one first."""
    whole = _snake(architecture)
    yield _snake(architecture.removesuffix("ForCausalLM")) or whole
    yield whole
    yield from (f"{whole}_{number}" for number in itertools.count(2))


def origin(entry_point: EntryPoint) -> str:
    """Return the name and version of the distribution that declares an entry point."""
    dist = entry_point.dist
    return f"{dist.name} {dist.version}" if dist is not None else "an unknown distribution"


def _snake(name: str) -> str:
    """Return `my_custom_model` of `MyCustomModel`, as modules are named."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).split("_")
    return "_".join(filter(None, parts)).lower()
