"""The host half of a cubin: an x86-64 relocatable object that `ptxas --nv-host` packs as section `.nv.host`.

Its symbols and data follow what the tables of such an object made by the original show (symbol table, relocations and
data, by readelf):

    __CUDA_TILEIR_CALLBACKS       72 B  2, 0, 0, 0, 0x40 (size of a row below), &FUNC_CALLBACKS, 1 (rows), 2, &ON_PRE_LOAD
    __CUDA_TILEIR_FUNC_CALLBACKS  64 B  a row a kernel: &name, 0, 0, 0, 0, &ON_ARGUMENTS_CHANGE, 0, 0

What the callbacks receive and must return was question 5. So these write what they got into a log at `LOG_ADDRESS`, where
the launching process has mapped a file: word 0 counts records, a record is 16 words: tag, the six integer argument
registers, and, for variants that look behind the pointers, the first words behind the first three. The answer: both return a
CUresult (an address, as in the variants "vector", fails the launch), and ON_PRE_LOAD may leave `*out` alone.
"""
from __future__ import annotations

LOG_ADDRESS = 0x5100_0000_0000
LOG_BYTES = 64 * 1024
RECORD_WORDS = 16
TAG_PRE_LOAD, TAG_ARGUMENTS = 1, 2
VARIANTS = {"vector": ("vector", False), "zero": ("zero", False), "vector_look": ("vector", True), "zero_look": ("zero", True)}
"""Name: (what ON_PRE_LOAD returns, whether callbacks read what their arguments point to)."""


def _callback(linkage: str, name: str, tag: int, result: str, look: bool) -> str:
    lines = [f"define {linkage}i64 @{name}(i64 %a0, i64 %a1, i64 %a2, i64 %a3, i64 %a4, i64 %a5) {{",
             f"  %log = inttoptr i64 {LOG_ADDRESS} to ptr", "  %n = load i64, ptr %log", "  %next = add i64 %n, 1",
             "  store i64 %next, ptr %log", "  %slot = and i64 %n, 255", f"  %word = mul i64 %slot, {RECORD_WORDS}",
             f"  %first = add i64 %word, {RECORD_WORDS}", "  %at = getelementptr i64, ptr %log, i64 %first",
             f"  store i64 {tag}, ptr %at"]
    for i in range(6):
        lines += [f"  %p{i} = getelementptr i64, ptr %at, i64 {i + 1}", f"  store i64 %a{i}, ptr %p{i}"]
    if look:
        for i in range(3):
            lines += [f"  %big{i} = icmp ugt i64 %a{i}, 65535", f"  br i1 %big{i}, label %look{i}, label %next{i}", f"look{i}:",
                      f"  %q{i} = inttoptr i64 %a{i} to ptr"]
            for j in range(3):
                lines += [f"  %s{i}{j} = getelementptr i64, ptr %q{i}, i64 {j}", f"  %v{i}{j} = load i64, ptr %s{i}{j}",
                          f"  %d{i}{j} = getelementptr i64, ptr %at, i64 {7 + 3 * i + j}",
                          f"  store volatile i64 %v{i}{j}, ptr %d{i}{j}"]
            lines += [f"  br label %next{i}", f"next{i}:"]
    return "\n".join([*lines, f"  ret i64 {result}", "}"])


def llvm_ir(kernel: str, variant: str) -> str:
    """The object's LLVM IR for one kernel. Raises KeyError for an unknown variant."""
    returned, look = VARIANTS[variant]
    result = "ptrtoint (ptr @__CUDA_TILEIR_CALLBACKS to i64)" if returned == "vector" else "0"
    change = "__CUDA_TILEIR_FUNC_ON_ARGUMENTS_CHANGE_0"
    return "\n".join([
        'target triple = "x86_64-unknown-linux-gnu"',
        f'@__CUDA_TILEIR_FUNC_NAME_0 = internal constant [{len(kernel) + 1} x i8] c"{kernel}\\00"',
        "@__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD = internal global [9 x i64] zeroinitializer",
        "@__CUDA_TILEIR_FUNC_CALLBACKS = internal constant { ptr, i64, i64, i64, i64, ptr, i64, i64 } { ptr "
        f"@__CUDA_TILEIR_FUNC_NAME_0, i64 0, i64 0, i64 0, i64 0, ptr @{change}, i64 0, i64 0 }}",
        "@__CUDA_TILEIR_CALLBACKS = constant { i64, i64, i64, i64, i64, ptr, i64, i64, ptr } { i64 2, i64 0, i64 0, i64 0, "
        "i64 64, ptr @__CUDA_TILEIR_FUNC_CALLBACKS, i64 1, i64 2, ptr @__CUDA_TILEIR_ON_PRE_LOAD }",
        _callback("", "__CUDA_TILEIR_ON_PRE_LOAD", TAG_PRE_LOAD, result, look),
        _callback("internal ", change, TAG_ARGUMENTS, "0", look),
        '@llvm.compiler.used = appending global [1 x ptr] [ptr @__CUDA_TILEIR_CALLBACKS_ON_PRE_LOAD], '
        'section "llvm.metadata"', ""])


def build(kernel: str, variant: str) -> bytes:
    """The object, position independent, in the large code model as the original's is."""
    import llvmlite.binding as llvm
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    module = llvm.parse_assembly(llvm_ir(kernel, variant))
    module.verify()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    return target.create_target_machine(opt=2, reloc="pic", codemodel="large").emit_object(module)
