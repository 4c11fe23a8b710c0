"""What the code-generation process does: LLVM IR text in, PTX and host objects out, over a pair of pipes.

LLVM ends the process it lives in when it can't select an instruction, so it has one to itself. This module is
started as `python -I -S -c ...` by `codegen.client`; it imports llvmlite's binding and nothing else of weight.

A message is four bytes of little-endian length and a `marshal`led tuple (both ends are the same interpreter):

    ("warm", cpu, features, opt_level)                    no reply
    ("ptx", ir, cpu, features, opt_level, cc, verify, keep_llvm)
        -> ("ok", ptx, optimized llvm or "", {"phase": seconds}) | ("error", message)
    ("host", ir, triple, code_model)
        -> ("ok", object file) | ("error", message)

LLVM's own output goes to the process's stderr, which the client keeps for the case that the process dies.
"""
from __future__ import annotations

import marshal
import os
import select
import sys
import time

from tileiras.host.object import DEFAULT_PLATFORM, PLATFORMS, host_module

TYPE_CHECKING = False  # importing `typing` would take as long as Python itself
if TYPE_CHECKING:
    from typing import Any

TRIPLE = "nvptx64-nvidia-cuda"
HOST_OPT_LEVELS = {"large": 0, "small": 2}
"""By code model, x86-64's and AArch64's: what is quickest and keeps to the original's kinds of relocations."""

_WARM_UP = """
define ptx_kernel void @warm(ptr addrspace(1) align 16 %p, i32 %n) {
  %q = getelementptr <4 x float>, ptr addrspace(1) %p, i32 %n
  %v = load <4 x float>, ptr addrspace(1) %q
  %w = fadd <4 x float> %v, %v
  store <4 x float> %w, ptr addrspace(1) %q
  ret void
}
"""


class Backend:
    """LLVM for NVPTX: target machines by (cpu, features, level), and libdevice once it is needed."""

    def __init__(self, libdevice_path: str) -> None:
        from tileiras.codegen import llvm_binding

        binding = llvm_binding.load()
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        # Shared, local and constant pointers are 32 bits: fewer registers and no 64-bit address arithmetic.
        binding.set_option("tileiras", "--nvptx-short-ptr")
        self._binding = binding
        self._target = binding.Target.from_triple(TRIPLE)
        self._machines: dict[tuple[str, str, int], Any] = {}
        self._host_machines: dict[tuple[str, str], Any] = {}
        self._libdevice_path = libdevice_path
        self._libdevice: Any = None

    def load_libdevice(self) -> Any:
        if self._libdevice is None:
            if not self._libdevice_path:
                raise RuntimeError("could not find libdevice.10.bc; install nvidia-nvvm or set CUDA_HOME")
            from tileiras.codegen.libdevice import Libdevice

            self._libdevice = Libdevice(self._binding, self._libdevice_path)
        return self._libdevice

    def machine(self, cpu: str, features: str, opt_level: int) -> Any:
        key = (cpu, features, opt_level)
        machine = self._machines.get(key)
        if machine is None:
            machine = self._target.create_target_machine(cpu=cpu, features=features, opt=opt_level)
            self._machines[key] = machine
        return machine

    def ptx(self, llvm_ir: str, cpu: str, features: str, opt_level: int, cc: int, verify: bool,
            keep_llvm: bool) -> tuple[str, str, dict[str, float]]:
        """PTX of a module, its optimized LLVM text if asked for, and the seconds of each phase."""
        from tileiras.codegen.libdevice import calls_libdevice

        binding, clock = self._binding, time.perf_counter
        start = clock()
        machine = self.machine(cpu, features, opt_level)
        if calls_libdevice(llvm_ir):
            llvm_ir = self.load_libdevice().complete(llvm_ir, cc)
        header = f'target datalayout = "{machine.target_data}"\ntarget triple = "{TRIPLE}"\n'
        lines = [line for line in llvm_ir.split("\n") if not line.startswith("target ")]
        linked = clock()
        module = binding.parse_assembly(header + "\n".join(lines), binding.create_context())
        if verify:
            module.verify()
        parsed = clock()
        tuning = binding.create_pipeline_tuning_options(speed_level=opt_level)
        tuning.loop_vectorization = False
        tuning.slp_vectorization = False
        builder = binding.create_pass_builder(machine, tuning)
        passes = builder.getModulePassManager()
        passes.run(module, builder)
        optimized = clock()
        ptx = machine.emit_assembly(module)
        emitted = clock()
        phases = {"libdevice": linked - start, "llvm-parse": parsed - linked,
                  "llvm-optimize": optimized - parsed, "llvm-codegen": emitted - optimized}
        return ptx, str(module) if keep_llvm else "", phases

    def host_object(self, llvm_ir: str, triple: str, code_model: str) -> bytes:
        """The object file of a module for a host: position independent, addresses as far as the code model reaches."""
        binding = self._binding
        machine = self._host_machines.get((triple, code_model))
        if machine is None:
            machine = self._host_machines[triple, code_model] = binding.Target.from_triple(triple).create_target_machine(
                opt=HOST_OPT_LEVELS[code_model], reloc="pic", codemodel=code_model)
        module = binding.parse_assembly(f'target datalayout = "{machine.target_data}"\n{llvm_ir}', binding.create_context())
        return machine.emit_object(module)


def _read(fd: int, size: int) -> bytes | None:
    chunks = []
    while size:
        chunk = os.read(fd, min(size, 1 << 20))
        if not chunk:
            return None
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def read_message(fd: int) -> tuple[Any, ...] | None:
    """The next message of `fd`, or None at its end."""
    head = _read(fd, 4)
    body = _read(fd, int.from_bytes(head, "little")) if head is not None else None
    return None if body is None else marshal.loads(body)


def write_message(fd: int, message: tuple[Any, ...]) -> None:
    body = marshal.dumps(message)
    data = memoryview(len(body).to_bytes(4, "little") + body)
    while data:
        data = data[os.write(fd, data):]


def _warm_up(backend: Backend, cpu: str, features: str, opt_level: int, read_fd: int) -> None:
    """Do once what LLVM does for the first time in the first module, as long as no request waits."""
    def host() -> None:
        triple, code_model = PLATFORMS[DEFAULT_PLATFORM]
        backend.host_object(host_module((), triple), triple, code_model)

    steps = (lambda: backend.ptx(_WARM_UP, cpu, features, opt_level, 0, False, False), host, backend.load_libdevice)
    for step in steps:
        if select.select([read_fd], [], [], 0)[0]:
            return
        try:
            step()
        except Exception as error:  # the request that needs it will say so
            print(error, file=sys.stderr)


def main(libdevice_path: str, read_fd: int = 0, write_fd: int = 1) -> None:
    """Serve requests until the input ends."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is the client's to handle
    backend: Backend | None = None
    failure = ""
    try:
        backend = Backend(libdevice_path)
    except Exception as error:  # reported with the first request
        failure = f"cannot start LLVM: {error}"
    while (message := read_message(read_fd)) is not None:
        kind, *arguments = message
        if kind == "warm":
            if backend is not None:
                cpu, features, opt_level = arguments
                _warm_up(backend, cpu, features, opt_level, read_fd)
            continue
        if backend is None:
            write_message(write_fd, ("error", failure))
            continue
        try:
            reply = (backend.host_object(*arguments),) if kind == "host" else backend.ptx(*arguments)
            write_message(write_fd, ("ok", *reply))
        except BrokenPipeError:
            break
        except Exception as error:
            write_message(write_fd, ("error", str(error).strip() or type(error).__name__))
    os._exit(0)
