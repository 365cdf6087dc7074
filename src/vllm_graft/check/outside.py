"""What classes outside vLLM have, which classes in it inherit: as far as it can be known here."""

import builtins
import importlib
import sys
from functools import lru_cache

_ALIASES = {
    "torch.nn.Module": "torch.nn.modules.module.Module",
    "torch.nn.modules.Module": "torch.nn.modules.module.Module",
    "torch.autograd.Function": "torch.autograd.function.Function",
    "pydantic.BaseModel": "pydantic.main.BaseModel",
    "typing_extensions.Protocol": "typing.Protocol",
}

_MEMBERS = {
    "torch.nn.modules.module.Module": """
        T_destination __annotations__ __call__ __getattr__ __setstate__ _apply _call_impl
        _compiled_call_impl _get_backward_hooks _get_backward_pre_hooks _get_name
        _load_from_state_dict _maybe_warn_non_full_backward_hook _named_members
        _register_load_state_dict_pre_hook _register_state_dict_hook
        _replicate_for_data_parallel _save_to_state_dict _slow_forward _version
        _wrapped_call_impl add_module apply bfloat16 buffers call_super_init children compile
        cpu cuda double dump_patches eval extra_repr float forward get_buffer get_extra_state
        get_parameter get_submodule half ipu load_state_dict modules mtia named_buffers
        named_children named_modules named_parameters parameters register_backward_hook
        register_buffer register_forward_hook register_forward_pre_hook
        register_full_backward_hook register_full_backward_pre_hook
        register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module
        register_parameter register_state_dict_post_hook register_state_dict_pre_hook
        requires_grad_ set_extra_state set_submodule share_memory state_dict to to_empty train
        type xpu zero_grad""",
    "torch.autograd.function.Function": """
        __call__ _backward_cls _compiled_autograd_backward_state _compiled_autograd_key
        _get_compiled_autograd_symints _input_metadata _is_pure_view
        _materialize_non_diff_grads _raw_saved_tensors _register_hook _register_hook_dict
        _sequence_nr _set_sequence_nr apply backward boxed_grads_call
        clear_saved_tensors_on_access dirty_tensors forward generate_vmap_rule jvp mark_dirty
        mark_non_differentiable mark_shared_storage materialize_grads maybe_clear_saved_tensors
        metadata name needs_input_grad next_functions non_differentiable register_hook
        register_prehook requires_grad save_for_backward save_for_forward saved_for_forward
        saved_tensors saved_variables set_materialize_grads setup_context to_save vjp vmap""",
    "pydantic.main.BaseModel": """
        __class_getitem__ __copy__ __deepcopy__ __fields__ __fields_set__
        __get_pydantic_core_schema__ __get_pydantic_json_schema__ __getattr__ __iter__
        __pretty__ __pydantic_complete__ __pydantic_core_schema__ __pydantic_decorators__
        __pydantic_extra__ __pydantic_fields_set__ __pydantic_init_subclass__
        __pydantic_on_complete__ __pydantic_parent_namespace__ __pydantic_private__
        __pydantic_root_model__ __pydantic_serializer__ __pydantic_validator__ __replace__
        __repr_args__ __repr_name__ __repr_recursion__ __repr_str__ __rich_repr__ __setstate__
        __slots__ _abc_impl _calculate_keys _copy_and_set_values _get_value _iter
        _setattr_handler construct copy dict from_orm json model_computed_fields model_config
        model_construct model_copy model_dump model_dump_json model_extra model_fields
        model_fields_set model_json_schema model_parametrized_name model_post_init
        model_rebuild model_validate model_validate_json model_validate_strings parse_file
        parse_obj parse_raw schema schema_json update_forward_refs validate""",
    "typing.Generic": "__class_getitem__ __parameters__ __slots__ _is_protocol",
    "typing.Protocol": """
        __class_getitem__ __parameters__ __protocol_attrs__ __slots__ _abc_impl _is_protocol
        _is_runtime_protocol""",
    "typing.NamedTuple": "_asdict _field_defaults _fields _make _replace count index",
    "typing.TypedDict": "__optional_keys__ __required_keys__ __total__ "
    + " ".join(name for name in dir(dict) if not hasattr(object, name)),
    "msgspec.Struct": """
        __copy__ __replace__ __rich_repr__ __slots__ __struct_config__ __struct_defaults__
        __struct_encode_fields__ __struct_fields__""",
}
"""Names in the bodies of classes, by torch 2.13, pydantic 2.14, msgspec 0.23; few come and go."""

_STANDARD = frozenset(
    """
    abc argparse ast asyncio codecs collections concurrent contextlib ctypes dataclasses datetime
    enum functools http io itertools json logging multiprocessing pathlib queue random
    socketserver string threading types typing unittest uuid weakref
    """.split()  # noqa: SIM905  a list of them has no form that one can read
)
"""Packages of the standard library that can be imported without any consequence."""


def members(dotted: str) -> frozenset[str] | None:
    """Return the names that a class outside vLLM has; None where nothing is known of it."""
    known = _MEMBERS.get(_ALIASES.get(dotted, dotted))
    return frozenset(known.split()) if known is not None else _standard(dotted)


def is_of_every_class(name: str) -> bool:
    """Tell whether a class has a name from `object`, or from being a class."""
    return name in _OBJECT


def is_builtin(name: str) -> bool:
    """Tell whether a name needs no definition."""
    return hasattr(builtins, name)


_OBJECT = frozenset(dir(object)) | {"__dict__", "__module__", "__name__", "__qualname__"}


def is_fixed(dotted: str) -> bool:
    """Tell whether a name is a class of the standard library that lets no attribute be set."""
    found = _standard_class(dotted)
    return found is not None and bool(found.__flags__ & _IMMUTABLE or not found.__flags__ & _HEAP)


_IMMUTABLE, _HEAP = 1 << 8, 1 << 9
"""`Py_TPFLAGS_IMMUTABLETYPE` and `Py_TPFLAGS_HEAPTYPE` (C API, "Type Object Structures")."""


def _standard(dotted: str) -> frozenset[str] | None:
    found = _standard_class(dotted)
    if found is None:
        return None
    return frozenset(name for base in found.__mro__ for name in vars(base))  # `dir` of Enum hides


@lru_cache(maxsize=256)
def _standard_class(dotted: str) -> type | None:
    module, _, name = dotted.rpartition(".")
    package = module.partition(".")[0]
    if module == "builtins":
        found = getattr(builtins, name, None)
    elif package in _STANDARD and package in sys.stdlib_module_names:
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ImportError:
            return None
    else:
        return None
    return found if isinstance(found, type) else None
