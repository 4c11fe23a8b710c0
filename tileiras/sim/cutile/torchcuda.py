"""How do 'cuda' tensors live on the CPU? PyTorch's own CPU tensors, of which it is noted that the program calls them cuda.

PyTorch lets a mode see every call of its functions. This one takes `device="cuda"` out of a call, makes it on the CPU, and
notes the storage of the result; views share a storage, so they are cuda as well, and what is computed from cuda tensors is
cuda. `.device`, `.is_cuda` and `.get_device()` answer by that note. `.cuda()` and `.cpu()` copy, as they do between two
memories. `torch.cuda` answers for one device of the chosen SM, whose streams are done at once.

What CUDA graphs record isn't seen here: they are refused.
"""
from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from tileiras.machine.targets import find_target
from tileiras.sim.core.statistics import machine_of
from tileiras.sim.cutile.patches import Patches
from tileiras.sim.cutile.specialize import capability

INDEX = 0
WARP = 32
DEVICE_MEMORY = 80 << 30
L2_BYTES = 50 << 20
RESERVED_SHARED = 1 << 10         # of an SM's shared memory, which CUDA takes for each block
STATIC_SHARED = 48 << 10          # what a block has without asking for more
MIN_ELAPSED_MS = 1e-3             # programs divide by a time
TF32_DROPPED = 13                 # bits of an f32's fraction that tf32 hasn't
TF32_HALF = 1 << (TF32_DROPPED - 1)
FIRST_PRUNE = 4096                # noted storages before those that are gone are looked for

_mode: Any = None


def plain() -> AbstractContextManager[Any]:
    """While it lasts, tensors are what they are: CPU tensors."""
    return sys.modules["torch"]._C.DisableTorchFunction() if _mode is not None else nullcontext()


def install(patches: Patches, gpu_name: str) -> None:
    """Let 'cuda' tensors live on the CPU, unless PyTorch sees a GPU of its own."""
    global _mode
    torch = sys.modules["torch"]
    if torch.cuda.is_available() or not hasattr(torch, "overrides"):
        return
    notes = Notes(torch)
    made = _mode_class(torch)(notes)
    _patch_cuda(patches, torch, gpu_name)
    patches.set(torch, "Generator", _generator(torch))
    _patch_libraries(patches, torch)
    patches.set(threading.Thread, "start", _starting_in(made, threading.Thread.start))
    made.__enter__()
    _mode = made


def uninstall() -> None:
    """Let go of the mode; the patches are undone by their owner."""
    global _mode
    if _mode is not None:
        if sys.modules["torch"].get_default_device().type == "cuda":
            sys.modules["torch"].set_default_device(None)
        _mode.__exit__(None, None, None)
        _mode = None


def is_cuda_device(device: Any) -> bool:
    """Whether "cuda", "cuda:0", torch.device("cuda") or a device's number is meant."""
    if isinstance(device, str):
        return device.partition(":")[0] == "cuda"
    if isinstance(device, int) and not isinstance(device, bool):
        return True
    return getattr(device, "type", None) == "cuda"


class Notes:
    """Which storages are cuda. A weak reference to each keeps its identity from being given to another."""

    def __init__(self, torch: Any) -> None:
        self._reference = import_module("torch.multiprocessing.reductions").StorageWeakRef
        self._tensor = torch.Tensor
        self._cuda: dict[int, Any] = {}
        self._prune_at = FIRST_PRUNE

    def key(self, tensor: Any) -> int | None:
        """The identity of a tensor's storage; None for tensors that have none."""
        try:
            return tensor.untyped_storage()._cdata
        except (NotImplementedError, RuntimeError):
            return None

    def has(self, tensor: Any) -> bool:
        return self.key(tensor) in self._cuda

    def add(self, tensor: Any) -> None:
        key = self.key(tensor)
        if key is None or key in self._cuda:
            return
        self._cuda[key] = self._reference(tensor.untyped_storage())
        if len(self._cuda) >= self._prune_at:
            self._cuda = {k: r for k, r in self._cuda.items() if not r.expired()}
            self._prune_at = max(FIRST_PRUNE, 2 * len(self._cuda))

    def tensors(self, value: Any, depth: int = 3) -> Iterator[Any]:
        """The tensors in arguments or results."""
        if isinstance(value, self._tensor):
            yield value
        elif depth and isinstance(value, list | tuple):
            for item in value:
                yield from self.tensors(item, depth - 1)
        elif depth and isinstance(value, dict):
            yield from self.tensors(list(value.values()), depth)


def _mode_class(torch: Any) -> type:
    """The mode, a subclass of PyTorch's."""
    defaults = import_module("torch.utils._device")
    Tensor = torch.Tensor
    cuda = torch.device("cuda", INDEX)
    move, to_cuda, to_cpu = Tensor.to, Tensor.cuda, Tensor.cpu
    narrow = (torch.float16, torch.bfloat16)
    functional = torch.nn.functional
    norms = (functional.layer_norm, functional.group_norm)
    summing = {torch.mm, torch.bmm, torch.addmm, torch.baddbmm, torch.matmul, Tensor.matmul, Tensor.__matmul__, Tensor.mm,
               Tensor.bmm, Tensor.addmm, Tensor.baddbmm, functional.linear, *norms}

    def summed(func: Any, args: tuple, kwargs: dict) -> Any:
        """A product of matrices or a norm of f16 and bf16, its gradients too: summed in f64 and rounded once, which is nearer
        to what tensor cores give than the CPU's sums are; a product also to a wider result, which only CUDA's have."""
        given = [a for a in args if isinstance(a, Tensor)]
        wider = kwargs.pop("out_dtype", None)
        if "out" not in kwargs and func not in norms and given and all(a.dtype == torch.float32 for a in given) and _tf32(torch):
            return func(*(_rounded_to_tf32(a) if isinstance(a, Tensor) else a for a in args), **kwargs)
        if wider is None and (not given or any(a.dtype not in narrow for a in given) or "out" in kwargs):
            return func(*args, **kwargs)
        kind = wider or given[0].dtype
        carrier = torch.float64 if kind.is_floating_point else kind
        kwargs = {k: v.to(carrier) if isinstance(v, Tensor) else v for k, v in kwargs.items()}
        return func(*(a.to(carrier) if isinstance(a, Tensor) else a for a in args), **kwargs).to(kind)

    class CudaOnCpu(torch.overrides.TorchFunctionMode):
        """Takes cuda devices out of calls and notes what is cuda."""

        def __init__(self, notes: Notes) -> None:
            super().__init__()
            self.notes = notes
            self.constructors = defaults._device_constructors()
            self.special: dict[Any, Callable[..., Any]] = {
                Tensor.is_cuda.__get__: lambda t, *_: notes.has(t) or t.is_cuda,
                Tensor.is_cpu.__get__: lambda t, *_: t.is_cpu and not notes.has(t),
                Tensor.device.__get__: lambda t, *_: cuda if notes.has(t) else t.device,
                Tensor.get_device: lambda t: INDEX if notes.has(t) else t.get_device(),
                Tensor.pin_memory: lambda t, *_, **__: t,
                Tensor.is_pinned: lambda t, *_, **__: False,
                Tensor.record_stream: lambda t, *_: None,
            }

        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
            kwargs = dict(kwargs or {})
            try:
                special = self.special.get(func)
            except TypeError:                       # not hashable
                special = None
            if special is not None:
                return special(*args, **kwargs)
            if func is torch.device:
                return func(*args, **kwargs)
            if func in (move, to_cuda, to_cpu):
                return self.moved(func, args, kwargs)
            wanted = self.device_of(func, kwargs)
            args = tuple(torch.device("cpu") if isinstance(a, torch.device) and a.type == "cuda" else a for a in args)
            kwargs.pop("pin_memory", None)
            inputs = list(self.notes.tensors((args, kwargs)))
            if func in summing and (wanted or any(self.notes.has(t) for t in inputs)):
                out = summed(func, args, kwargs)
            else:
                out = func(*args, **kwargs)
            return self.noted(out, inputs, wanted)

        def device_of(self, func: Any, kwargs: dict) -> bool | None:
            """Whether a call asks for a cuda device, None where it asks for none; its arguments then ask for the CPU."""
            device = kwargs.get("device")
            if device is None and func in self.constructors:
                device = defaults.CURRENT_DEVICE            # of `with torch.device(...)` and torch.set_default_device
            if device is None:
                return None
            if is_cuda_device(device):
                kwargs["device"] = "cpu"
                return True
            return False

        def noted(self, out: Any, inputs: list, wanted: bool | None) -> Any:
            """Note what is cuda of the results: all, where asked for or computed from cuda tensors, but views of what isn't."""
            if wanted or (wanted is None and any(self.notes.has(t) for t in inputs)):
                others = {self.notes.key(t) for t in inputs if not self.notes.has(t)}
                for t in self.notes.tensors(out):
                    if wanted or self.notes.key(t) not in others:
                        self.notes.add(t)
            return out

        def moved(self, func: Any, args: tuple, kwargs: dict) -> Any:
            """`.to`, `.cuda` and `.cpu`: a copy where the device changes."""
            tensor, *rest = args
            here = there = self.notes.has(tensor)
            if func is not move:
                there, rest, kwargs = func is to_cuda, [], {k: v for k, v in kwargs.items() if k == "memory_format"}
            else:
                for at, value in [*enumerate(rest), *kwargs.items()]:
                    if isinstance(value, Tensor):
                        there = self.notes.has(value)
                    elif isinstance(value, str | torch.device) or (at in (0, "device") and isinstance(value, int)
                                                                   and not isinstance(value, bool)):
                        there = is_cuda_device(value)
                        value = "cpu" if there else value
                        if isinstance(at, int):
                            rest[at] = value
                        else:
                            kwargs[at] = value
            out = tensor.to(*rest, **kwargs)
            if there != here and self.notes.key(out) == self.notes.key(tensor):
                out = out.clone()
            if there:
                self.notes.add(out)
            return out

    return CudaOnCpu


def _tf32(torch: Any) -> bool:
    """Whether the program lets CUDA multiply f32 as tf32."""
    matmul = torch.backends.cuda.matmul
    return getattr(matmul, "fp32_precision", None) == "tf32" if hasattr(matmul, "fp32_precision") else matmul.allow_tf32


def _rounded_to_tf32(tensor: Any) -> Any:
    """f32 with 10 bits of fraction, ties to even; gradients pass as if it were the same."""
    torch = sys.modules["torch"]
    bits = tensor.detach().contiguous().view(torch.int32)
    rounded = ((bits + (TF32_HALF - 1) + ((bits >> TF32_DROPPED) & 1)) & -(1 << TF32_DROPPED)).view(torch.float32)
    rounded = torch.where(torch.isfinite(tensor.detach()), rounded, tensor.detach())
    return tensor + (rounded - tensor).detach() if tensor.requires_grad else rounded


def _starting_in(mode: Any, start: Callable[[Any], None]) -> Callable[[Any], None]:
    """Modes are a thread's own: threads that start now run in this one as well."""
    def started(self: threading.Thread) -> None:
        run = self.run

        def in_mode() -> None:
            with mode:
                run()
        self.run = in_mode              # type: ignore[method-assign]
        start(self)
    return started


def _generator(torch: Any) -> type:
    """A class in place of torch.Generator whose 'cuda' generators are the CPU's."""
    real = torch.Generator

    class Kind(type):
        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, real)

    class Generator(metaclass=Kind):
        def __new__(cls, device: Any = "cpu") -> Any:
            return real("cpu" if is_cuda_device(device) else device)

    return Generator


# ---- torch.cuda

class Stream:
    """Work is done when it is given: a stream is always empty."""
    cuda_stream = 0
    device_index = INDEX

    def __init__(self, *_: Any, **__: Any) -> None:
        self._before: list[Stream] = []

    @property
    def device(self) -> Any:
        return sys.modules["torch"].device("cuda", INDEX)

    def synchronize(self) -> None:
        """Nothing is under way."""

    def wait_event(self, event: Any) -> None:
        """Everything has happened."""

    def wait_stream(self, stream: Any) -> None:
        """Everything has happened."""

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        event = event if event is not None else Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        self._before.append(_state.stream)
        _state.stream = self
        return self

    def __exit__(self, *_: Any) -> None:
        _state.stream = self._before.pop()


class Event:
    """A moment; times between two are those of the simulation, not of a GPU."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.at: float | None = None

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """It has happened."""

    def wait(self, stream: Any = None) -> None:
        """It has happened."""

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another."""
        if self.at is None or end.at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return max((end.at - self.at) * 1e3, MIN_ELAPSED_MS)


_NULL_STREAM = Stream()
_state = SimpleNamespace(stream=_NULL_STREAM)


class CUDAGraph:
    """None can be made; programs name the class in their annotations."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("CUDA graphs aren't recorded where the simulator stands in for the GPU")


@contextmanager
def _nothing(*_: Any, **__: Any) -> Iterator[None]:
    yield


def device_properties(gpu_name: str) -> SimpleNamespace:
    """Those of the device, by PyTorch's names."""
    major, minor = capability(gpu_name)
    machine, target = machine_of(gpu_name), find_target(gpu_name)
    return SimpleNamespace(
        name=f"{machine.name} (simulated {gpu_name})", major=major, minor=minor, total_memory=DEVICE_MEMORY,
        multi_processor_count=machine.sms, L2_cache_size=L2_BYTES, warp_size=WARP, regs_per_multiprocessor=target.registers_per_sm,
        max_threads_per_multi_processor=target.max_threads_per_sm, is_integrated=0, is_multi_gpu_board=0,
        shared_memory_per_block=STATIC_SHARED, shared_memory_per_block_optin=target.smem_per_sm - RESERVED_SHARED,
        shared_memory_per_multiprocessor=target.smem_per_sm, gcnArchName="", clock_rate=int(machine.clock * 1e6))


def _patch_cuda(patches: Patches, torch: Any, gpu_name: str) -> None:
    properties = device_properties(gpu_name)
    answers: dict[str, Any] = {
        "is_available": True, "is_initialized": True, "device_count": 1, "current_device": INDEX, "init": None,
        "get_device_capability": (properties.major, properties.minor), "get_device_name": properties.name,
        "get_device_properties": properties,
        "get_arch_list": [gpu_name], "is_bf16_supported": True, "synchronize": None, "set_device": None, "empty_cache": None,
        "ipc_collect": None, "manual_seed": None, "manual_seed_all": None, "seed": None, "seed_all": None, "initial_seed": 0,
        "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0,
        "reset_peak_memory_stats": None, "reset_max_memory_allocated": None, "mem_get_info": (DEVICE_MEMORY, DEVICE_MEMORY),
        "is_current_stream_capturing": False, "_sleep": None, "can_device_access_peer": False, "_lazy_init": None,
    }
    for name, value in answers.items():
        patches.set(torch.cuda, name, lambda *_, _value=value, **__: _value)
    patches.set(torch.cuda, "memory_stats", lambda *_, **__: _Zeros())
    patches.set(torch.cuda, "current_stream", lambda device=None: _state.stream)
    patches.set(torch.cuda, "default_stream", lambda device=None: _NULL_STREAM)
    patches.set(torch.cuda, "set_stream", lambda stream: setattr(_state, "stream", stream))
    patches.set(torch.cuda, "stream", lambda stream: stream if stream is not None else nullcontext())
    patches.set(torch.cuda, "Stream", Stream)
    patches.set(torch.cuda, "ExternalStream", Stream)
    patches.set(torch.cuda, "Event", Event)
    patches.set(torch.cuda, "device", _nothing)
    patches.set(torch.cuda, "device_of", _nothing)
    patches.set(torch.cuda, "get_rng_state", lambda device=None: torch.get_rng_state())
    patches.set(torch.cuda, "set_rng_state", lambda state, device=None: torch.set_rng_state(state))
    patches.set(torch.cuda, "CUDAGraph", CUDAGraph)
    patches.set(torch.cuda, "graph", CUDAGraph)
    # Which of CUDA's attention kernels a program prefers: the CPU has its own.
    patches.set(import_module("torch.nn.attention"), "sdpa_kernel", _nothing)
    if torch.version.cuda is None:
        patches.set(torch.version, "cuda", "13.0")


class _Zeros(dict):
    """Statistics that nobody keeps."""

    def __missing__(self, key: str) -> int:
        return 0


def _patch_libraries(patches: Patches, torch: Any) -> None:
    """Operators that a program registers for cuda are the CPU's as well, also where it has others for the CPU: that is where their
    tensors are."""
    library = torch.library
    custom_op, impl, register = library.custom_op, library.Library.impl, library.register_kernel

    def types_of(given: Any) -> Any:
        if isinstance(given, str) or given is None:
            return "cpu" if given == "cuda" else given
        return [types_of(t) for t in given] if isinstance(given, Iterable) else given

    def custom(name: Any, fn: Any = None, /, *, device_types: Any = None, **named: Any) -> Any:
        return custom_op(name, fn, device_types=types_of(device_types), **named)

    of_cuda: set[tuple[str, str, str]] = set()

    def implement(self: Any, name: Any, fn: Any, dispatch_key: str = "", **named: Any) -> Any:
        key = dispatch_key or self.dispatch_key
        standing = {"CUDA": "CPU", "AutogradCUDA": "AutogradCPU"}.get(key)
        place = (self.ns, str(name), standing or key)
        if standing is None:
            return None if place in of_cuda else impl(self, name, fn, dispatch_key, **named)
        of_cuda.add(place)
        try:
            return impl(self, name, fn, standing, **named)
        except RuntimeError:        # the program registered one for the CPU before, and this PyTorch lets none take its place
            return impl(self, name, fn, standing, **{**named, "allow_override": True})

    def kernel(op: Any, device_types: Any, func: Any = None, /, **named: Any) -> Any:
        return register(op, types_of(device_types), func, **named)

    patches.set(library, "custom_op", custom)
    patches.set(library.Library, "impl", implement)
    patches.set(library, "register_kernel", kernel)
