"""Recipes of tensor maps: their arithmetic, their text, and the bytes they lead to."""
import struct

import pytest

from tileiras.host import recipe
from tileiras.host.recipe import Choose, Const, Extend, HostMap, Param, RecipeError, apply, evaluate, extend, read_map

TOP = 1 << 64

# What host objects of the original wrote: element; address; sizes; strides; box; swizzle; atomicity -> words in hexadecimal
GOLDEN = {
    "two dimensions": ("f16", 0x7F1000000000, (192, 256), (384,), (64, 128), 128, "16B",
                       "0 7f10 46312 18 0 0 0 0 bf ff 0 0 0 3f000000 7f 0"),
    "128 KiB and more": ("f16", 0x7F1000100000, (320, 256), (640,), (64, 64), 128, "16B",
                         "100000 7f10 246312 28 0 0 0 0 13f ff 0 0 0 3f000000 3f 0"),
    "five dimensions": ("f32", 0x7F1000000050, (48, 6, 5, 4, 3), (192, 1152, 5760, 92160), (16, 4, 4, 2, 2), 0, "16B",
                        "50 7f10 2403c2 c 48 168 1680 0 2f 5 4 3 2 f000000 1010303 0"),
    "four bits": ("b4x16", 0x7F1000000000, (4096, 1000), (2048,), (128, 64), 0, "16B",
                  "0 7f10 240592 80 0 0 0 0 fff 3e7 0 0 0 7f000000 3f 0"),
    "strides of 34 and 38 bits": ("f32", 0x7F1000000000, (8, 16, 64), (0x3FFFFFFC0, 0x3FFFFFFC00), (8, 16, 4), 0, "16B",
                                  "0 7f10 2403a2 3ffffffc ffffffc0 0 0 30 7 f 3f 0 0 7000000 30f 0"),
    "an unaligned address": ("u8", 0x7F1000000007, (131071,), (), (256,), 0, "16B",
                             "0 7f10 40002 0 0 0 0 0 1fffe 0 0 0 0 ff000000 0 0"),
    "an address beyond 57 bits": ("u8", 0xFE007F1000000000, (131072,), (), (256,), 0, "16B",
                                  "0 7f10 240002 0 0 0 0 0 1ffff 0 0 0 0 ff000000 0 0"),
    "tf32, swizzled in 32 bytes": ("tf32", 0x7E0100000000, (512, 448), (2304,), (32, 32), 128, "32B",
                                   "0 7e01 2d6392 90 0 0 0 0 1ff 1bf 0 0 0 1f000000 1f 0"),
}


def constants(values) -> tuple:
    return tuple(Const(v) for v in values)


@pytest.mark.parametrize("case", GOLDEN)
def test_a_map_is_what_the_originals_host_code_writes(case):
    element, address, sizes, strides, box, swizzle, atomicity, words = GOLDEN[case]
    made = HostMap(Const(address), element, constants(sizes), constants(strides), box, swizzle, atomicity).encode(())
    assert [f"{w:x}" for w in struct.unpack("<16I", made[:64])] == words.split()
    assert made[64:] == bytes(64)


def test_parameters_are_extended_as_they_say():
    params = (0xFFFF_FFFF_8000_0001, -1)
    assert evaluate(Param(0), params) == 0xFFFF_FFFF_8000_0001
    assert evaluate(Param(0, 32), params) == 0x8000_0001
    assert evaluate(Param(0, 32, signed=True), params) == 0xFFFF_FFFF_8000_0001
    assert evaluate(Param(1, 16), params) == 0xFFFF


@pytest.mark.parametrize("operation,lhs,rhs,result", [
    ("add", TOP - 1, 2, 1), ("sub", 0, 1, TOP - 1), ("mul", 1 << 63, 2, 0), ("mul", TOP - 1, TOP - 1, 1),
    ("shl", 1, 63, 1 << 63), ("shl", 1, 64, 0), ("lshr", TOP - 1, 63, 1), ("lshr", 5, 64, 0), ("ashr", TOP - 2, 1, TOP - 1),
    ("ashr", 1 << 63, 200, TOP - 1), ("and", 12, 10, 8), ("or", 12, 10, 14), ("xor", 12, 10, 6),
    ("umin", TOP - 1, 1, 1), ("umax", TOP - 1, 1, TOP - 1), ("smin", TOP - 1, 1, TOP - 1), ("smax", TOP - 1, 1, 1),
    ("eq", 3, 3, 1), ("ne", 3, 3, 0), ("ult", 1, TOP - 1, 1), ("slt", 1, TOP - 1, 0), ("ule", 3, 3, 1), ("sle", TOP - 1, 0, 1)])
def test_arithmetic_is_that_of_64_bits(operation, lhs, rhs, result):
    assert evaluate(recipe.Apply(operation, Param(0), Param(1)), (lhs, rhs)) == result
    assert apply(operation, Const(lhs), Const(rhs)) == Const(result)


def test_what_changes_nothing_is_folded():
    n = Param(3, 32)
    assert apply("add", n, Const(0)) is n and apply("mul", Const(1), n) is n and apply("mul", n, Const(0)) == Const(0)
    assert extend(n, 32) is n and extend(n, 48, signed=True) is n and extend(Const(0x80), 8, signed=True) == Const(-128)
    assert extend(n, 32, signed=True) == Extend(n, 32, True) and extend(n, 16) == Extend(n, 16)
    assert recipe.choose(Const(0), n, Const(7)) == Const(7) and recipe.choose(Param(0), n, n) is n


SLICE = HostMap(apply("add", Param(0), apply("mul", Param(4, 32, True), Const(2))), "bf16",
                (apply("sub", Param(5, 32), Param(4, 32)), Choose(Param(6, 8), Extend(Param(1), 16), Const(-1))),
                (apply("shl", Param(2, 32), Const(1)),), (64, 128), 128, "32B+8B flip")


@pytest.mark.parametrize("made", [SLICE, HostMap(Param(0), "f32.ftz", (Param(1, 32),), (), (4,), nan_fill=True)], ids=str)
def test_a_text_is_read_back(made):
    assert read_map(str(made)) == made and hash(read_map(str(made))) == hash(made)


def test_a_text_is_readable():
    assert str(SLICE) == ("bf16 add(p0, mul(i32(p4), 2)) [sub(u32(p5), u32(p4)), select(u8(p6), zext16(p1), -1)] "
                          "[shl(u32(p2), 1)] box [64, 128] swizzle 128 atomicity 32B+8B_flip")


def test_a_map_knows_the_parameters_it_reads():
    assert SLICE.parameters() == {Param(0), Param(1), Param(2, 32), Param(4, 32), Param(4, 32, True), Param(5, 32), Param(6, 8)}


@pytest.mark.parametrize("text,wanted", [
    ("", "an element type"), ("f16", "an expression"), ("f17 p0 [1] [] box [8]", "no tensor map"),
    ("f16 p0 [1] [2] box [8]", "no tensor map"), ("f16 p0 [1] [] box [257]", "no tensor map"),
    ("f16 pow(p0, 1) [1] [] box [8]", "pow"),
    ("f16 add(p0) [1] [] box [8]", "operands of add"), ("f16 u32(3) [1] [] box [8]", "a parameter"),
    ("f16 p0 [1] [] box [8] swizzle x", "a number"), ("f16 p0 [1] [] box [8] 7", "nothing more"), ("f16 p0 [1", "','"),
    ("f16 " + "add(p0, " * 100, "levels"), ("x" * 100_000, "characters"), ("f16 u99(p0) [1] [] box [8]", "an expression")])
def test_a_wrong_text_is_refused(text, wanted):
    with pytest.raises(RecipeError, match=wanted):
        read_map(text)


def test_a_recipe_stays_small_enough_for_its_text():
    deep = grown = Param(0)
    for _ in range(recipe.MAX_DEPTH):
        deep = apply("add", deep, Const(1))
    read_map(str(HostMap(deep, "u8", (Const(16),), (), (16,))))
    for _ in range(20):
        grown = apply("add", grown, grown)
    for far in (apply("add", deep, Const(1)), grown):
        with pytest.raises(ValueError, match="levels or"):
            HostMap(far, "u8", (Const(16),), (), (16,))


def test_an_extent_of_0_reads_as_a_whole_32_bit_range():
    from tileiras.sim.copy.tensormap import decode
    view = HostMap(Param(0), "f32", (Param(1, 32), Param(2, 32)), (apply("mul", Param(1, 32), Const(4)),), (32, 8))
    empty = decode(view.encode((0x1000, 64, 0)))
    assert empty.sizes == (64, 1 << 32) and empty.strides == (256,)


def test_a_broadcast_dimension_has_the_stride_0():
    from tileiras.sim.copy.tensormap import decode
    assert decode(HostMap(Const(512), "u8", constants((64, 8)), constants((0,)), (64, 8)).encode(())).strides == (0,)
