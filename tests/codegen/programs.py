"""LLVM IR kernels that the tests of code generation share."""
from __future__ import annotations

from tileiras.machine.targets import Target


def vector_op(target: Target, value: str = "%s = fadd float %x, %y", declarations: str = "", name: str = "vadd") -> str:
    """`c[i] = f(a[i], b[i])` for i < n, 128 threads a block; `value` defines %s from %x and %y."""
    return f"""
{declarations}
define ptx_kernel void @{name}(ptr addrspace(1) align 16 %a, ptr addrspace(1) align 16 %b,
                               ptr addrspace(1) align 16 %c, i32 %n) #0 {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %first = mul i32 %block, 128
  %i = add i32 %first, %t
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %go, label %end
go:
  %pa = getelementptr float, ptr addrspace(1) %a, i32 %i
  %pb = getelementptr float, ptr addrspace(1) %b, i32 %i
  %pc = getelementptr float, ptr addrspace(1) %c, i32 %i
  %x = load float, ptr addrspace(1) %pa
  %y = load float, ptr addrspace(1) %pb
  {value}
  store float %s, ptr addrspace(1) %pc
  br label %end
end:
  ret void
}}
attributes #0 = {{ "nvvm.reqntid"="128" "nvvm.minctasm"="1" }}
"""


EXPONENTIAL = ("%s = call float @__nv_expf(float %x)", "declare float @__nv_expf(float)")
ABORTS = "%s = call float @llvm.log2.f32(float %x)"
"""LLVM 22 ends its process on this."""
