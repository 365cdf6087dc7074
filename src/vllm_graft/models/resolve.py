"""A view of vLLM's registry in which a factory's entry is the implementation that it chooses."""

import functools
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

from ..caches import PLACED_BY, package_digest
from ..errors import FactoryError, UnsupportedConfigError
from ..journal import JOURNAL, LOGGER
from ..process import PROCESS
from ..target import Target
from .choice import Choice, choose, is_factory
from .context import asked_model, choices_of, is_draft, is_settled, neuron_config_of
from .factory import UPSTREAM
from .registry import Model

Registry = Any
Entry = Any


@dataclass(frozen=True)
class Factory:
    """A factory as vLLM's registry has it; `model` is None where it was registered directly."""

    name: str
    entry: Entry
    model: Model | None = None


class Factories:
    """What this process knows of factories: the registered ones, and what they chose last.

    `implementations` are all that were ever chosen here and are not vLLM's own; `kept` are the
    choices with which vLLM's cache of classes was filled.
    """

    def __init__(self) -> None:
        self.by_architecture: dict[str, Factory] = {}
        self.upstream: dict[str, Entry] = {}
        self.chosen: dict[str, Choice] = {}
        self.implementations: set[Target] = set()
        self.kept: dict[str, str] = {}
        self.registering: Model | None = None
        self._told: set[Choice] = set()

    def of(self, architecture: str, entry: Entry) -> Factory | None:
        """Return the factory that an entry of the registry names, if it names one."""
        known = self.by_architecture.get(architecture)
        if known is not None and known.entry is entry:
            return known
        target = class_of(entry)
        if is_vllms_own(entry) or not _names_factory(target):
            return None
        found = self.by_architecture[architecture] = Factory(str(target), entry)
        return found

    def choose(
        self, architecture: str, factory: Factory, model_config: Any, *, last: bool = False
    ) -> Choice:
        """Ask a factory; what it chooses must be what it chose where the configuration was made.

        `last` is the time when the model has its final name and all is known of it.
        """
        if model_config is None:  # vLLM before 0.10.1, where its model is not known
            return self._chosen_before(architecture, factory)
        choices = choices_of(model_config)
        if is_settled(model_config) and architecture not in choices and not last:
            return Choice(architecture, factory.name, UPSTREAM)  # a model inside of another one
        neuron_config = neuron_config_of(model_config)
        try:
            choice = choose(architecture, factory.name, model_config.hf_config, neuron_config)
        except UnsupportedConfigError:
            if last or not is_draft(model_config):
                raise
            # vLLM asks for a draft by the name in its checkpoint first, and may rename it.
            return Choice(architecture, factory.name, UPSTREAM)
        before = choices.setdefault(architecture, choice.implementation)
        if before != choice.implementation:
            raise _disagreement(str(choice), before)
        self._remember(choice, factory)
        return choice

    def without(self, architecture: str, model_config: Any) -> None:
        """Raise `FactoryError` where a factory has chosen for a model that has none here."""
        if model_config is not None:
            before = choices_of(model_config).get(architecture, UPSTREAM)
            if before != UPSTREAM:
                raise _disagreement(f"{architecture} has no factory", before)

    def _chosen_before(self, architecture: str, factory: Factory) -> Choice:
        choice = self.chosen.get(architecture)
        if choice is None:
            raise FactoryError(
                f"vLLM asks for {architecture!r} without saying for which model, so that the "
                f"factory {factory.name} cannot choose."
            )
        return choice

    def _remember(self, choice: Choice, factory: Factory) -> None:
        self.chosen[choice.architecture] = choice
        if choice in self._told:
            return
        self._told.add(choice)
        if not choice.is_upstream:
            self.implementations.add(Target.parse(choice.implementation))
            if not any(map(JOURNAL.is_applied, PLACED_BY)):
                JOURNAL.distrust_caches(f"{choice.implementation} is in use")
        patch = JOURNAL.patch(factory.model.id) if factory.model else None
        JOURNAL.event("select_model", patch, detail=str(choice))
        LOGGER.debug("vllm-graft: %s", choice)

    def mark(self) -> str | None:
        """Return what tells the implementations in use apart, for vLLM's keys; None for its own."""
        marks = [f"{each} {package_digest(each.module)}" for each in self.implementations]
        return ", ".join(sorted(marks)) or None

    def entry_for(self, choice: Choice, like: Entry) -> Entry:
        """Return the entry of the registry for a choice; vLLM's own is the one that it had."""
        if choice.implementation != UPSTREAM:
            target = Target.parse(choice.implementation)
            return type(like)(target.module, target.qualname)
        entry = self.upstream.get(choice.architecture)
        if entry is None:
            raise FactoryError(
                f"{choice}, and this vLLM has no implementation of its own. Let the factory name "
                "another one."
            )
        return entry


FACTORIES = Factories()


class _Models(dict[str, Entry]):
    """The registry's models; asked for an architecture with a factory, it has the choice."""

    def __init__(self, models: dict[str, Entry], model_config: Any) -> None:
        super().__init__(models)
        self._model_config = model_config
        self.implementations: dict[Choice, Entry] = {}

    def __getitem__(self, architecture: str) -> Entry:
        entry = super().__getitem__(architecture)
        factory = FACTORIES.of(architecture, entry)
        if factory is None:
            FACTORIES.without(architecture, self._model_config)
            return entry
        choice = FACTORIES.choose(architecture, factory, self._model_config)
        chosen = FACTORIES.entry_for(choice, factory.entry)
        self.implementations[choice] = chosen
        return chosen


def ask(
    original: Callable[..., Any],
    registry: Registry,
    architectures: "str | list[str]",
    model_config: Any,
    again: Callable[[Entry], Any],
) -> Any:
    """Ask the registry, with choices in place of factories.

    vLLM logs what goes wrong with an implementation and goes on without it; what it raises in the
    end says nothing. `again` repeats what failed, for its error.
    """
    told = (model_config,) if model_config is not None else ()  # vLLM before 0.10.1 takes none
    view = copy(registry)
    view.models = _Models(registry.models, model_config or asked_model())
    try:
        return original(view, architectures, *told)
    except ValueError:
        for choice, entry in view.models.implementations.items():
            _explain(choice, entry, again)
        raise


def _disagreement(here: str, before: str) -> FactoryError:
    return FactoryError(
        f"{here} in the process {PROCESS.name}, and {before} was chosen where the engine was "
        "configured. Give all processes the same environment (VLLM_GRAFT_PLATFORM_TARGET, "
        "VLLM_GRAFT_PATCHES) and the same packages."
    )


def _explain(choice: Choice, entry: Entry, again: Callable[[Entry], Any]) -> None:
    try:
        again(entry)
    except Exception as error:
        told = str(error).strip().splitlines() or [type(error).__name__]
        raise FactoryError(
            f"{choice}, and vLLM cannot use that class: {told[-1]}\n" + "\n".join(told[-12:-1])
        ) from error


def is_vllms_own(entry: Entry) -> bool:
    """Tell whether an entry of the registry is a class of vLLM's."""
    return class_of(entry).module.partition(".")[0] == "vllm"


def class_of(entry: Entry) -> Target:
    """Return the class that an entry of the registry, lazy or imported, stands for."""
    model = getattr(entry, "model_cls", None)
    if model is not None:
        return Target(model.__module__, model.__qualname__)
    return Target(entry.module_name, entry.class_name)


@functools.cache
def _names_factory(target: Target) -> bool:
    return is_factory(target)
