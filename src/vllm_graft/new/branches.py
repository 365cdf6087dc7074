"""What names stand for after a part of a file of which only one branch is executed."""

from collections.abc import Collection
from dataclasses import replace

from .conditions import joined
from .imported import Choice, Imported


def take_either(
    imported: Imported, branches: "tuple[Imported, Imported]", vllm: tuple[str, str]
) -> None:
    """Take note of what either branch of an `if` has bound.

    `vllm` are the versions for which each is executed, empty where that is not known: then a name
    that stands for different things in them is only known at run time.
    """
    first, second = branches
    for name in dict.fromkeys((*first.paths, *second.paths, *first.derived, *second.derived)):
        one, other = _choices(first, name), _choices(second, name)
        derived = (*first.derived.get(name, ()), *second.derived.get(name, ()))
        is_lost = name in imported.paths and not (one and other)
        if one == other and one:
            imported.bind(name, one)
        elif derived or ((is_lost or (one and other)) and not all(vllm)):
            imported.forget(name)
            paths = (*derived, *(each.path for each in (*one, *other)))
            imported.derived[name] = tuple(dict.fromkeys(paths))
        else:
            imported.bind(name, (*_for(one, vllm[0]), *_for(other, vllm[1])))
    for name in [*imported.paths, *imported.derived]:
        if not any(name in each.paths or name in each.derived for each in branches):
            imported.forget(name)


def take_fallback(imported: Imported, fallback: Imported, tried: Collection[str]) -> None:
    """Take note of what an `except` block binds that is executed where imports have failed.

    `tried` are the names that the `try` block binds: for those the block has an alternative.
    """
    for name in fallback.paths:
        first, second = _choices(imported, name), _choices(fallback, name)
        more = tuple(each for each in second if each not in first)
        if more and not first and name not in imported.derived:
            imported.bind(name, second)
        elif more and first and name in tried:
            imported.bind(name, (*first, *more))
        elif more and first:
            imported.forget(name)
            imported.derived[name] = tuple(each.path for each in (*first, *more))


def _choices(imported: Imported, name: str) -> tuple[Choice, ...]:
    path = imported.paths.get(name)
    if path is None:
        return ()
    return imported.choices.get(name, (Choice(path, path),))


def _for(choices: tuple[Choice, ...], vllm: str) -> tuple[Choice, ...]:
    return tuple(replace(each, vllm=joined(each.vllm, vllm)) for each in choices)
