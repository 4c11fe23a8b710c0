"""What does the driver run on the host before a launch? The LLVM module of a cubin's host object (`.nv.host`).

`host_module(kernels, triple)` is its text: the vector of callbacks, a row a kernel, ON_PRE_LOAD, and for each kernel the
function that is called with its parameters, which `callbacks.py` writes for kernels with tensor maps. `PLATFORMS` says for
which hosts machine code can be made of it; docs/host.md describes the contract. Every compile imports this: no dataclasses.
"""
from __future__ import annotations

from collections.abc import Sequence

VECTOR = "__CUDA_TILEIR_CALLBACKS"
ROWS = "__CUDA_TILEIR_FUNC_CALLBACKS"
NAME = "__CUDA_TILEIR_FUNC_NAME_"
VECTOR_COPY = "__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD"
ON_PRE_LOAD = "__CUDA_TILEIR_ON_PRE_LOAD"
ON_ARGUMENTS_CHANGE = "__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_"

AREA = "__CUDA_TILEIR_AREA"                     # bytes of device memory for one device-built map

VERSION, ROW_VERSION = 2, 2                     # first and eighth word of the vector (what they mean is a guess)
ROW_WORDS, VECTOR_WORDS = 8, 9
MEMORY_WORD = 2                                 # of the vector: bytes of device memory wanted
GET_ATTRIBUTE, MULTIPROCESSORS = 6, 16          # the driver's function in its table; CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

MAP_BYTES = 128
"""Of a tensor map."""
BYTES_AN_SM = 8192
"""Of device memory for one device-built map on drivers that have no memory a CTA: 64 warps of 128 bytes."""
MOST_SMS = 224


_ARM = "aarch64-unknown-linux-gnu", "aarch64-pc-windows-msvc-elf"
PLATFORMS: dict[tuple[str, str], tuple[str, str]] = {
    ("x86_64", "linux"): ("x86_64-unknown-linux-gnu", "large"),
    ("x86_64", "windows"): ("x86_64-pc-windows-msvc-elf", "large"),
    ("aarch64", "linux"): (_ARM[0], "small"), ("aarch64", "windows"): (_ARM[1], "small"),
    ("arm64ec", "linux"): (_ARM[0], "small"), ("arm64ec", "windows"): (_ARM[1], "small"),
}
"""By `--host-arch` and `--host-os`: LLVM's triple, which says how functions are called, and code model. It is an ELF file on
Windows too."""
DEFAULT_PLATFORM = ("x86_64", "linux")


def host_module(kernels: Sequence[tuple[str, Sequence[str]]], triple: str, device_maps: int = 0) -> str:
    """The LLVM module, without its data layout. `kernels`: name, and LLVM's instructions of what is done with a launch's
    parameters (`%params`, `%runtime`). `device_maps`: how many tensor maps all kernels build on the device."""
    vector = _vector(len(kernels), BYTES_AN_SM * MOST_SMS * device_maps)
    lines = ['source_filename = "tile"', f'target triple = "{triple}"',
             f"@{VECTOR} = constant [{VECTOR_WORDS} x i64] {vector}",
             f"@{VECTOR_COPY} = internal global [{VECTOR_WORDS} x i64] zeroinitializer, align 8"]
    rows = ", ".join(_row(i) for i in range(len(kernels)))
    lines.append(f"@{ROWS} = internal constant [{len(kernels)} x [{ROW_WORDS} x i64]] "
                 f"{f'[{rows}]' if kernels else 'zeroinitializer'}")
    for i, (name, _) in enumerate(kernels):
        data = name.encode(errors="surrogateescape") + b"\0"
        lines.append(f'@{NAME}{i} = internal constant [{len(data)} x i8] c"{"".join(f"{chr(92)}{b:02X}" for b in data)}"')
    lines += [f"@{AREA} = internal global i64 {BYTES_AN_SM * MOST_SMS}"] * (device_maps > 0)
    lines.append(_pre_load(device_maps))
    for i, (_, body) in enumerate(kernels):
        lines += [f"define internal i32 @{ON_ARGUMENTS_CHANGE}{i}(ptr %a, ptr %runtime, ptr %c, ptr %params) uwtable {{",
                  *body, "  ret i32 0", "}"]
    return "\n".join(lines) + "\n"


def _address(symbol: str) -> str:
    return f"i64 ptrtoint (ptr @{symbol} to i64)"


def _vector(count: int, memory: int) -> str:
    words = [VERSION, 0, memory, 0, ROW_WORDS * 8, ROWS, count, ROW_VERSION, ON_PRE_LOAD]
    return f"[{', '.join(_address(w) if isinstance(w, str) else f'i64 {w}' for w in words)}]"


def _row(i: int) -> str:
    words = [f"{NAME}{i}", 0, 0, 0, 0, f"{ON_ARGUMENTS_CHANGE}{i}", 0, 0]
    return f"[{ROW_WORDS} x i64] [{', '.join(_address(w) if isinstance(w, str) else f'i64 {w}' for w in words)}]"


def _copy_words() -> str:
    """The vector copied word by word: no library's memcpy is there. Word 2, the memory, is the caller's."""
    lines = []
    for i in range(VECTOR_WORDS):
        if i == MEMORY_WORD:
            continue
        lines += [f"  %from{i} = getelementptr i64, ptr @{VECTOR}, i64 {i}", f"  %word{i} = load i64, ptr %from{i}",
                  f"  %to{i} = getelementptr i64, ptr @{VECTOR_COPY}, i64 {i}", f"  store i64 %word{i}, ptr %to{i}"]
    return "\n".join(lines)


def _pre_load(device_maps: int) -> str:
    """A driver of version 2 has memory a CTA for device-built maps; older ones are asked for some for each SM."""
    area = f"""  %sms = load i32, ptr %count
  %wide = zext i32 %sms to i64
  %counted = mul i64 %wide, {BYTES_AN_SM}
  %least = load i64, ptr @{AREA}
  %more = icmp ugt i64 %counted, %least
  %area = select i1 %more, i64 %counted, i64 %least
  store i64 %area, ptr @{AREA}
  %wanted = mul i64 %area, {device_maps}
  store i64 %wanted, ptr %memory
""" if device_maps else ""
    return f"""define i32 @{ON_PRE_LOAD}(ptr %table, i64 %device, i32 %version, ptr %out) uwtable {{
  %count = alloca i32
  %none = icmp eq i32 %version, 0
  br i1 %none, label %refuse, label %fill
refuse:
  ret i32 1
fill:
{_copy_words()}
  %memory = getelementptr i64, ptr @{VECTOR_COPY}, i64 {MEMORY_WORD}
  store i64 0, ptr %memory
  %old = icmp slt i32 %version, 2
  br i1 %old, label %ask, label %done
ask:
  store i32 0, ptr %count
  %slot = getelementptr ptr, ptr %table, i64 {GET_ATTRIBUTE}
  %attribute = load ptr, ptr %slot
  %result = call i32 %attribute(i64 %device, i32 {MULTIPROCESSORS}, ptr %count)
{area}  br label %done
done:
  store ptr @{VECTOR_COPY}, ptr %out
  ret i32 0
}}"""
