"""A thousand damaged bytecode files: each is refused with a diagnostic and a documented exit code, or compiles; none
makes the command raise, or take more than two seconds of processor time."""
from __future__ import annotations

import contextlib
import io
import pathlib
import signal

import pytest

from tests.fuzz.bytecode import mutations
from tests.kernels import runner

KERNELS = ("vector_add_float32", "softmax_1x1024_f32_ragged", "control_while", "saxpy_2d", "vector_add_ragged",
           "matmul_float16_float32", "control_for_int64", "gelu_tanh_f16", "transpose_tile_int8", "shape_transpose")
FILES = 1000
VERSIONS = ("13.1", "13.4")
DOCUMENTED = {0, 2, 3, 5}
SECONDS = 2.0


@pytest.mark.parametrize("batch", range(len(KERNELS)))
def test_damaged_files(batch: int, tmp_path: pathlib.Path) -> None:
    from tileiras.driver.main import main
    name = KERNELS[batch]
    source, out = tmp_path / "damaged.tileirbc", tmp_path / "out.cubin"

    def too_long(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, too_long)
    trouble = []
    files = mutations(runner.export_case(name, VERSIONS[batch % 2]), seed=1000 + batch, count=FILES // len(KERNELS))
    for number, data in enumerate(files):
        source.write_bytes(data)
        out.unlink(missing_ok=True)
        said = io.StringIO()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
                code = main([str(source), "-o", str(out), "--gpu-name", "sm_90", "-O0"])
        except SystemExit as exit_:
            code = exit_.code
        except BaseException as error:
            trouble.append(f"{number}: {name}: {type(error).__name__}: {error}")
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        text = said.getvalue()
        if code not in DOCUMENTED or "Traceback" in text or "internal error" in text:
            trouble.append(f"{number}: {name}: exit {code}: {text.strip()[:200]}")
        elif (code == 0) != out.exists():
            trouble.append(f"{number}: {name}: exit {code}, output {'exists' if out.exists() else 'is missing'}")
        elif code and "error: " not in text:
            trouble.append(f"{number}: {name}: exit {code} without a diagnostic")
        if len(trouble) == 1:
            (runner.BUILD / "mutations").mkdir(parents=True, exist_ok=True)
            (runner.BUILD / "mutations" / f"{batch}-{number}.tileirbc").write_bytes(data)
    assert not trouble, "\n".join(trouble[:10]) + f"\n{len(trouble)} in all; the first lies in build/mutations"
