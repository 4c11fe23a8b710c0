"""A thousand damaged bytecode files: each is refused with a diagnostic and a documented exit code, or compiles; none
makes the command raise, or take more than two seconds of processor time."""
from __future__ import annotations

import contextlib
import io
import pathlib
import random
import signal

import pytest

from tests.kernels import runner

KERNELS = ("vector_add_float32", "softmax_1x1024_f32_ragged", "control_while", "saxpy_2d", "vector_add_ragged",
           "matmul_float16_float32", "control_for_int64", "gelu_tanh_f16", "transpose_tile_int8", "shape_transpose")
FILES = 1000
BATCHES = 10
DOCUMENTED = {0, 2, 3, 5}
SECONDS = 2.0


def flip(data: bytearray, rng: random.Random) -> None:
    """One bit of the file changes."""
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(data: bytearray, rng: random.Random) -> None:
    """A run of bytes becomes something else: often the extreme values that counts and lengths break on."""
    start = rng.randrange(len(data))
    for i in range(start, min(len(data), start + rng.randint(1, 8))):
        data[i] = rng.choice((0x00, 0xFF, 0x7F, 0x80, rng.randrange(256)))


def truncate(data: bytearray, rng: random.Random) -> None:
    """The file ends early."""
    del data[rng.randrange(len(data)):]


def splice(data: bytearray, rng: random.Random) -> None:
    """A piece of the file stands in a second place."""
    a, n, b = rng.randrange(len(data)), rng.randint(1, 32), rng.randrange(len(data))
    data[b:b] = data[a:a + n]


def remove(data: bytearray, rng: random.Random) -> None:
    """A piece of the file is missing."""
    start = rng.randrange(len(data))
    del data[start:start + rng.randint(1, 16)]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to three kinds of damage, most of them behind the magic number."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        if len(changed) > 12:
            head = changed[:8] if rng.random() < 0.9 else b""
            body = changed[len(head):]
            rng.choice((flip, flip, overwrite, truncate, splice, remove))(body, rng)
            changed = bytearray(head) + body
    return bytes(changed)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_damaged_files(batch: int, tmp_path: pathlib.Path) -> None:
    from tileiras.driver.main import main
    rng = random.Random(f"mutations {batch}")
    source, out = tmp_path / "damaged.tileirbc", tmp_path / "out.cubin"

    def too_long(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGPROF, too_long)
    trouble = []
    for number in range(FILES // BATCHES):
        name = rng.choice(KERNELS)
        data = mutate(runner.export_case(name, rng.choice(("13.1", "13.4"))), rng)
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
        if code not in DOCUMENTED or "Traceback" in text:
            trouble.append(f"{number}: {name}: exit {code}: {text.strip()[:200]}")
        elif (code == 0) != out.exists():
            trouble.append(f"{number}: {name}: exit {code}, output {'exists' if out.exists() else 'is missing'}")
        elif code and "error: " not in text:
            trouble.append(f"{number}: {name}: exit {code} without a diagnostic")
        if len(trouble) == 1:
            (runner.BUILD / "mutations").mkdir(parents=True, exist_ok=True)
            (runner.BUILD / "mutations" / f"{batch}-{number}.tileirbc").write_bytes(data)
    assert not trouble, "\n".join(trouble[:10]) + f"\n{len(trouble)} in all; the first lies in build/mutations"
