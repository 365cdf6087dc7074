"""Everything that vllm-graft raises.

    GraftError
    ├── DeclarationError (ValueError)             a patch or a set is declared wrongly
    │   └── BrokenSetError                        a set that cannot be loaded
    ├── ConflictError (ValueError)                patches that cannot be in effect together
    ├── SettingError (ValueError)                 a VLLM_GRAFT_* variable has no meaning
    ├── SourceError (ValueError)                  what is checked is no vLLM, or cannot be read
    ├── ProjectError (ValueError)                 what a pyproject.toml says has no meaning
    ├── NewPackageError (ValueError)              a package cannot be made as it is asked for
    ├── VersionError
    │   ├── InvalidVersionOverrideError (ValueError)   VLLM_VERSION is no version
    │   └── UnknownVersionError (RuntimeError)    which vLLM this is cannot be told
    ├── LockError (RuntimeError)                  a patch is not as it was locked
    ├── ModelError (RuntimeError)                 a model factory gives no implementation
    │   ├── UnsupportedConfigError                the model cannot be had as it is asked for
    │   └── FactoryError                          the factory, or what it chose, is at fault
    └── ApplyError (RuntimeError)                 a patch cannot land
        ├── TargetNotFoundError (LookupError)     its module or name does not exist
        ├── TargetKindError (TypeError)           the operation does not fit what is there
        ├── SignatureError (TypeError)            what is there is called in ways it does not take
        ├── ImplementationError                   what it would put there cannot be had
        └── VerificationError                     it landed, and reading back shows another object

None of them is an ImportError or an AttributeError: code that tries an optional import or asks
`hasattr` would take those for an answer and go on without the patch. Those of models are no
ValueError either: they are raised while vLLM makes its configuration, and pydantic would turn them
into a ValidationError of its own.
"""


class GraftError(Exception):
    """Base of every error of this package."""


class DeclarationError(GraftError, ValueError):
    """A patch or a patch set is declared wrongly."""


class BrokenSetError(DeclarationError):
    """A patch set cannot be loaded from its entry point."""


class ConflictError(GraftError, ValueError):
    """Selected patches cannot be in effect together."""


class SettingError(GraftError, ValueError):
    """An environment variable of this package has a value without a meaning."""


class SourceError(GraftError, ValueError):
    """What was given as the sources of a vLLM is none, or cannot be read."""


class ProjectError(GraftError, ValueError):
    """What a project's `pyproject.toml` says of its patches has no meaning."""


class NewPackageError(GraftError, ValueError):
    """A new package cannot be made: its name, its place, or the files that it is made from."""


class VersionError(GraftError):
    """Which vLLM this is cannot be told."""


class InvalidVersionOverrideError(VersionError, ValueError):
    """`VLLM_VERSION` does not name a vLLM release."""


class UnknownVersionError(VersionError, RuntimeError):
    """Required patches are selected, and the version of vLLM is unknown."""


class LockError(GraftError, RuntimeError):
    """A required patch, or what it meets, is not as it was locked, and `require` was asked for."""


class ModelError(GraftError, RuntimeError):
    """A model factory gives no implementation for a configuration."""


class UnsupportedConfigError(ModelError):
    """A model is asked for in a way that its factory does not offer on this platform."""


class FactoryError(ModelError):
    """A factory cannot be imported, raised, or chose what is no implementation."""


class ApplyError(GraftError, RuntimeError):
    """A patch cannot be brought into effect in this process."""


class TargetNotFoundError(ApplyError, LookupError):
    """The module or the name that a patch targets does not exist."""


class TargetKindError(ApplyError, TypeError):
    """The operation does not fit the object that the target is."""


class SignatureError(ApplyError, TypeError):
    """The implementation cannot be called in the ways in which the target can be."""


class ImplementationError(ApplyError):
    """The implementation of a patch cannot be imported, or raised while it was set up."""


class VerificationError(ApplyError):
    """The target, read back through its public path, is not what was put there."""
