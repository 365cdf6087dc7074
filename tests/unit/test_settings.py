"""The environment variables of the contract, read into a value."""

import pytest

from vllm_graft import SettingError
from vllm_graft.settings import Selection, Settings


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, Settings()),
        ({"VLLM_GRAFT": "0"}, Settings(enabled=False)),
        ({"VLLM_GRAFT": "1"}, Settings(enabled=True)),
        ({"VLLM_GRAFT": ""}, Settings(enabled=True)),
        ({"VLLM_GRAFT_STRICT": "1"}, Settings(strict=True)),
        ({"VLLM_GRAFT_STRICT": "0"}, Settings()),
        ({"VLLM_GRAFT_STRICT": ""}, Settings()),
        ({"VLLM_VERSION": "0.32.0"}, Settings(version="0.32.0")),
        ({"VLLM_VERSION": " 0.32.0\n"}, Settings(version="0.32.0")),
        ({"VLLM_VERSION": ""}, Settings()),
        ({"VLLM_GRAFT_PATCHES": ""}, Settings()),
        ({"VLLM_GRAFT_PATCHES": " , "}, Settings()),
        (
            {"VLLM_GRAFT_PATCHES": "acme/*, -acme/kv-*,other/x"},
            Settings(selection=Selection(("acme/*", "other/x"), ("acme/kv-*",))),
        ),
        ({"VLLM_PLUGINS": "x", "PATH": "/bin"}, Settings()),
    ],
)
def test_variables(environ: dict[str, str], expected: Settings) -> None:
    """Each variable has its meaning, and an empty one is not set."""
    assert Settings.read(environ) == expected


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"VLLM_GRAFT": "off"}, ["VLLM_GRAFT is 'off'", "1 (on) or 0 (off)"]),
        ({"VLLM_GRAFT_STRICT": "yes"}, ["VLLM_GRAFT_STRICT is 'yes'", "1 (on) or 0 (off)"]),
        ({"VLLM_GRAFT_PATCHES": "acme"}, ["VLLM_GRAFT_PATCHES", "'acme'", "'acme/*,-acme/kv-*'"]),
        ({"VLLM_GRAFT_PATCHES": "acme/*,!x"}, ["the entry '!x'", "vllm-graft list"]),
        ({"VLLM_GRAFT_PATCHES": "acme/* other/*"}, ["the entry 'acme/* other/*'"]),
        ({"VLLM_GRAFT_PATCHES": "-"}, ["the entry '-'"]),
        ({"VLLM_GRAFT_PATCHES": "a/b/c"}, ["the entry 'a/b/c'"]),
    ],
)
def test_a_value_without_a_meaning_is_an_error(environ: dict[str, str], words: list[str]) -> None:
    """The error names the variable, what it has, and what it could have."""
    with pytest.raises(SettingError) as caught:
        Settings.read(environ)

    for word in words:
        assert word in str(caught.value)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("patches", "patch_id", "expected"),
    [
        ("", "acme/x", True),
        ("acme/*", "other/x", False),
        ("acme/*", "vllm-graft/compile-factors", True),
        ("acme/*", "vllm-cpu/aot-artifact", False),
        ("-vllm-graft/*", "vllm-graft/compile-factors", False),
        ("-vllm-graft/compile-*", "vllm-graft/env-variables", True),
        ("acme/X", "acme/x", False),
    ],
)
def test_the_layers_own_patches_are_deselected_only_by_name(
    patches: str, patch_id: str, expected: bool
) -> None:
    """Who selects some patches still gets what the layer needs to apply them."""
    assert Selection.parse(patches).selects(patch_id) is expected
