"""The one way kernels are compiled: nogil, cached, and never stale when any kernel file changed."""

import contextlib
import functools
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from llvmlite import binding
from numba.core import caching, codegen, compiler, environment, sigutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys
from numba.core.targetconfig import ConfigStack
from numba.core.types import IntegerLiteral, int64
from numba.core.types.functions import BaseFunction
from numba.core.typing import templates
from numba.core.untyped_passes import InlineClosureLikes
from numba.extending import intrinsic as numbas_intrinsic

__all__ = ["cache_folders", "inline", "intrinsic", "kernel", "processor"]


@functools.cache
def _room_stamp() -> tuple[tuple[str, int, int], ...]:
    room = Path(__file__).parent
    files = sorted(room.rglob("*.py"))
    stats = [(str(file.relative_to(room)), file.stat()) for file in files]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


def _stamped(locator: type) -> type:
    # Numba's own stamp is the kernel's file alone, so a changed helper in another file would leave
    # callers that inlined the old one. The stamp of the whole folder rebuilds them.
    return type(locator.__name__, (locator,), {"get_source_stamp": lambda self: _room_stamp()})


class _StoredEnvironment(NamedTuple):
    """What stored machine code finds constants and names by."""

    module: str
    constants: list
    name: str

    @classmethod
    def of(cls, environment):
        return environment and cls(*environment.__reduce__()[1])

    def rebuilt(self):
        """The environment, without importing a module of Numba's for it.

        Only code that calls back into Python reads the module's names. Those of `np.empty`, which
        many kernels call, would load Numba's texts and structures: a tenth of the time of a short
        command.
        """
        if not self.module.startswith("numba.") or self.module in sys.modules:
            return environment._rebuild_env(*self)
        made = environment.lookup_environment(self.name)
        if made is None:
            made = environment.Environment({"__name__": self.module})
            made.consts[:], made.env_name = self.constants, self.name
            environment.Environment._memo[self.name] = made
        return made


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes = [_stamped(each) for each in caching.CompileResultCacheImpl._locator_classes]

    def reduce(self, compiled):
        library, description, own, *rest, called = super().reduce(compiled)
        others = [_StoredEnvironment.of(each) for each in called]
        return library, description, _StoredEnvironment.of(own), *rest, others

    def rebuild(self, target, stored):
        library, description, own, *rest, called = stored
        own, others = own and own.rebuilt(), tuple(each.rebuilt() for each in called)
        return super().rebuild(target, (library, description, own, *rest, others))


def cache_folders() -> list[Path]:
    """Folders that hold the machine code of the kernels, made where they are missing.

    Raises OSError where Numba finds no place that can be written.
    """
    room, found = Path(__file__).parent, []
    for folder in sorted({file.parent for file in room.rglob("*.py")}):
        for each in _Implementation._locator_classes:
            locator = each.from_function(kernel, str(folder / "__init__.py"))
            if locator is not None:
                found.append(Path(locator.get_cache_path()))
                break
        else:
            raise OSError(f"{folder} cannot be written, and NUMBA_CACHE_DIR names no other folder")
    return found


def processor() -> tuple[str, dict[str, bool]]:
    """Name of the processor, and which of the features it has that kernels are compiled for."""
    return binding.get_host_cpu_name(), dict(binding.get_host_cpu_features())


class _Cache(caching.FunctionCache):
    _impl_class = _Implementation

    def load_overload(self, sig, target_context):
        # Numba would first load every function that it can compile, and SciPy's linear algebra with
        # them: most of the time of a first call. Machine code from disk calls only the runtime of
        # arrays and C's functions; what has to be compiled loads the rest by itself.
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def _load_overload(self, sig, target_context):
        try:
            return super()._load_overload(sig, target_context)
        except OSError:
            raise  # which Numba takes care of
        except Exception:
            # The index names types of a version of ours that is not installed any more.
            self.flush()
            return None


class _KernelLibrary(codegen.JITCodeLibrary):
    """Machine code of a kernel, optimised once: with its helpers inlined, not before as well."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout


class _HelperLibrary(_KernelLibrary):
    """Intermediate code of a helper: each kernel that inlines it optimises it there, once."""

    def finalize(self):
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


@functools.cache
def _load_array_functions():
    """Load Numba's array functions without SciPy's linear algebra, which they only look for."""
    from numba.np import linalg

    look = linalg.ensure_blas
    linalg.ensure_blas = lambda: None  # SciPy is installed; a matrix product looks for it again
    try:
        from numba.np import arraymath
    finally:
        linalg.ensure_blas = look
    arraymath.ensure_blas = look


class _KernelCompiler(compiler.Compiler):
    library = _KernelLibrary

    def __init__(self, *arguments):
        _load_array_functions()
        super().__init__(*arguments)

    def define_pipelines(self):
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        pipelines = super().define_pipelines()
        code = state.func_id.code
        if not any(isinstance(each, CodeType) for each in code.co_consts):
            for each in pipelines:  # nothing nested, such as a comprehension, to take out of it
                each.passes[:] = [p for p in each.passes if p[0] is not InlineClosureLikes]
        return pipelines


class _HelperCompiler(_KernelCompiler):
    library = _HelperLibrary

    def define_pipelines(self):
        self.state.flags.no_compile = True  # stops after the intermediate code
        return super().define_pipelines()

    def _compile_core(self):
        # Numba finds the code of a call by its entry point, which a helper does not have.
        lowered = super()._compile_core()._replace(entry_point=object())
        functions = self.state.targetctx
        functions.insert_user_function(lowered.entry_point, lowered.fndesc, [lowered.library])
        return lowered


@contextlib.contextmanager
def _uncollected():
    """Compiling makes many objects that live until its end: looking for garbage would only wait."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Options(compiler.Flags):
    """Options of a kernel or helper, equal if both compile a function of Numba's alike."""

    _OF_WRAPPERS = frozenset(
        ("no_cpython_wrapper", "no_cfunc_wrapper", "no_compile", "forceinline")
    )

    def values(self):
        # By these Numba finds what it has compiled for a caller.
        values = super().values()
        return {name: values[name] for name in values.keys() - self._OF_WRAPPERS}

    @functools.cached_property
    def kind(self):
        """A number that equal options share."""
        return _KINDS.setdefault(self.copy(), len(_KINDS))


_KINDS = {}


class _Compiled(CPUDispatcher):
    """A function with a pipeline of ours."""

    def __init__(self, function, options, pipeline):
        super().__init__(function, {}, options, pipeline_class=pipeline)
        self._compiler._customize_flags = _Options


class _LibraryHelper(_Compiled):
    """A function of Numba's that kernels call."""

    def add_overload(self, lowered):
        self.overloads[tuple(lowered.signature.args)] = lowered  # Python never calls it


class _Helper(_Compiled):
    """A function that kernels call; from Python, a kernel of its own is compiled on demand."""

    def compile(self, sig):
        args, return_type = sigutils.normalize_signature(sig)
        if args not in self.overloads:
            with global_compiler_lock, self._compiling_counter:
                if args not in self.overloads:
                    self.overloads[args] = self._compiler.compile(args, return_type)
        return self.overloads[args].entry_point

    def get_call_template(self, args, kws):
        # One version for all literal integers: once inlined, they are constants again.
        kinds = [int64 if isinstance(each, IntegerLiteral) else each for each in args]
        return super().get_call_template(tuple(kinds), kws)

    @functools.cached_property
    def _kernel(self):
        return kernel(self.py_func)

    def __call__(self, *args):
        return self._kernel(*args)


class _Kernel(_Compiled):
    """A function that Python calls; other kernels call a helper of the same code."""

    def compile(self, sig):
        with _uncollected():
            return super().compile(sig)

    @functools.cached_property
    def _helper(self):
        return _Helper(self.py_func, HELPER, _HelperCompiler)

    def get_call_template(self, args, kws):
        return self._helper.get_call_template(args, kws)

    def get_overload(self, sig):
        return self._helper.get_overload(sig)


KERNEL = {
    "nopython": True,
    "nogil": True,
    "error_model": "numpy",
    "boundscheck": None,  # as NUMBA_BOUNDSCHECK says
    "no_cfunc_wrapper": True,  # nothing takes a kernel's address
}
HELPER = KERNEL | {"no_cpython_wrapper": True}
LIBRARY = {"nopython": True, "no_cpython_wrapper": True}  # of all but few of Numba's functions
_numbas_decorator = templates._OverloadFunctionTemplate._get_jit_decorator


def _library_helper(**options):
    """The decorator of a function of Numba's that is neither optimised nor compiled by itself."""
    options |= {"no_cfunc_wrapper": True}
    return lambda function: _LibraryHelper(function, options, _HelperCompiler)


def _decorator(template):
    """Ours for what a kernel of ours calls, Numba's for all other code of the process."""
    ours = isinstance(ConfigStack.top_or_none(), _Options) and template._jit_options == LIBRARY
    return _library_helper if ours else _numbas_decorator(template)


templates._OverloadFunctionTemplate._get_jit_decorator = _decorator
_numbas_call_type = BaseFunction.get_call_type


def _call_type(function, context, args, kws):
    """The signature of a call of a function of Numba's, found once for each types of arguments.

    Numba tries all templates of an operator at each place where it stands, most of the time of
    typing a kernel. For our kernels alone, and while the lock of compilations is held. A function
    that gets further templates is another object, for which nothing is known.
    """
    options = ConfigStack.top_or_none()
    if not isinstance(options, _Options):
        return _numbas_call_type(function, context, args, kws)
    call = function, context, tuple(args), tuple(kws.items()), options.kind
    if call not in _SIGNATURES:
        signature = _numbas_call_type(function, context, args, kws)
        _SIGNATURES[call] = signature, function._impl_keys[signature.args]
    signature, implementation = _SIGNATURES[call]
    function._impl_keys[signature.args] = implementation  # other code may have found another
    return signature


BaseFunction.get_call_type = _call_type
_SIGNATURES = {}


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile an array kernel that runs without the GIL and is loaded from disk the next time."""
    compiled = _Kernel(function, KERNEL, _KernelCompiler)
    compiled._cache = _Cache(function)
    return compiled


def inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a helper that LLVM folds into every kernel that calls it.

    It is neither optimised nor made machine code on its own, which takes most of the time of a
    compilation; nor is it stored, as only a kernel that has to be compiled needs it.
    """
    return _Helper(function, HELPER | {"forceinline": True}, _HelperCompiler)


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let kernels call what this function writes in LLVM's language, as Numba's decorator does."""
    found: Callable[..., Any] = numbas_intrinsic(function)
    return found
