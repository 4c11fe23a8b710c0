"""The worker's few modules of llvmlite compile as all of llvmlite does, and what is kept of libdevice is what it says."""
from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from tileiras import kept
from tileiras.codegen import toolchain

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = f"""
import sys
sys.path[:0] = [sys.argv[2], {str(ROOT)!r}]
from tileiras.codegen import llvm_binding, worker
if sys.argv[1] == "without":
    llvm_binding._lean = lambda: 1 / 0
backend = worker.Backend(sys.argv[3])
ir = '''declare float @__nv_sinf(float)
define ptx_kernel void @k(ptr addrspace(1) %p, float %x) {{
  %y = call float @__nv_sinf(float %x)
  store float %y, ptr addrspace(1) %p
  ret void
}}
'''
print("llvmlite.binding.orcjit" in sys.modules, "importlib.resources" in sys.modules)
print(backend.ptx(ir, "sm_90", "+ptx88", 3, 90, True, False)[0])
"""


def compiled(how: str) -> tuple[str, str]:
    """Whether all of llvmlite was loaded, and the PTX."""
    llvmlite = toolchain.find_python_package("llvmlite")
    assert llvmlite is not None
    done = subprocess.run([sys.executable, "-I", "-S", "-c", SCRIPT, how, str(pathlib.Path(llvmlite).parent),
                           str(toolchain.find_libdevice())], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    loaded, _, ptx = done.stdout.partition("\n")
    return loaded, ptx


def test_a_few_modules_do_what_all_do() -> None:
    lean, whole = compiled("with"), compiled("without")
    assert lean[0] == "False False" and whole[0].startswith("True")
    assert lean[1] == whole[1] and ".entry k(" in lean[1]


def test_kept_texts_of_libdevice_are_its_functions(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite.binding as binding

    from tileiras.codegen.libdevice import Libdevice

    monkeypatch.setattr(kept, "path_of", lambda name: str(tmp_path / name))
    binding.initialize_all_targets()
    path = str(toolchain.find_libdevice())
    fresh, again = Libdevice(binding, path), Libdevice(None, path)      # the second has no LLVM to ask
    module = binding.parse_bitcode(pathlib.Path(path).read_bytes(), binding.create_context())
    assert set(again.names()) == {f.name for f in module.functions if not f.is_declaration}
    for name in ("__nv_sinf", "__nv_pow", "__nv_fsub_rn", "__nv_tanf.quick"):
        ir = f"declare float @{name}(float)\n"
        assert again.complete(ir, 90) == fresh.complete(ir, 90) and f"@{name}(" in again.complete(ir, 90)


def test_what_is_kept_has_a_key(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "path_of", lambda name: str(tmp_path / name))
    assert kept.load("thing") is None
    kept.save("thing", {"a": (1, b"2")}, ("key", 3))
    assert kept.load("thing", ("key", 3)) == {"a": (1, b"2")} and kept.load("thing", ("key", 4)) is None
    (tmp_path / "nowhere").write_text("a file, where a folder is wanted")
    monkeypatch.setattr(kept, "path_of", lambda name: str(tmp_path / "nowhere" / name))
    kept.save("thing", 1)
    assert kept.load("thing") is None
