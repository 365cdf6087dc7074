"""Parts of a file of which only one branch is executed: what they bind, and what they assign."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from .conditions import joined
from .imported import Choice, Imported
from .old_file import Assignment


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


def with_twins(
    first: Sequence[Assignment], second: Sequence[Assignment]
) -> tuple[list[Assignment], list[Assignment]]:
    """Return assignments, those of both blocks with the paths of both; and what has no twin.

    Two are twins if they assign the same: the second is an alternative to the first.
    """
    done, paired, alone = list(first), [], []
    for other in second:
        place = next((i for i, each in enumerate(first) if each.given == other.given), None)
        if place is None:
            alone.append(other)
            continue
        choices = (*done[place].choices, *other.choices)
        own = done[place].own or done[place].choices
        done[place] = replace(done[place], choices=choices, own=own, required=other.required)
        paired.append(replace(other, choices=choices, own=other.own or other.choices))
    return [*done, *paired], alone


def _choices(imported: Imported, name: str) -> tuple[Choice, ...]:
    path = imported.paths.get(name)
    if path is None:
        return ()
    return imported.choices.get(name, (Choice(path, path),))


def _for(choices: tuple[Choice, ...], vllm: str) -> tuple[Choice, ...]:
    return tuple(replace(each, vllm=joined(each.vllm, vllm)) for each in choices)
