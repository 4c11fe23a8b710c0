"""A product is made narrower only where both factors' sources still have the values that were extended."""
import pytest

from tileiras.codegen.wide_products import wide_products

HEAD = ".visible .entry k(\n\t.param .u32 k_param_0\n)\n{\n"
WIDE = "\tmul.wide.s32 \t%rd3, %r2, %r1;"
PRODUCT = "\tmul.lo.s64 \t%rd3, %rd2, %rd1;"
ROW = "\tadd.s32 \t%r2, %r5, %r6;\n\tcvt.s64.s32 \t%rd2, %r2;\n"


def kernel(*lines: str) -> str:
    return HEAD + "\n".join(lines) + "\n\tret;\n}\n"


def hoisted(first: str, between: str = "", before: str = "") -> str:
    """A stride that `first` writes, extended in front of a loop with the product."""
    return kernel(first, before, "\tcvt.s64.s32 \t%rd1, %r1;", "$L__BB0_2:", ROW + between + PRODUCT, "\t@%p1 bra \t$L__BB0_2;")


@pytest.mark.parametrize("first, before", [
    ("\tld.param.b32 \t%r1, [k_param_0];", ""),
    ("\tld.param.b32 \t%r1, [k_param_0];", "$L__BB0_1:"),
    ("\tadd.s32 \t%r1, %r7, %r8;", ""),
])
def test_a_stride_that_is_extended_before_a_loop(first, before):
    assert WIDE in wide_products(hoisted(first, before=before))


@pytest.mark.parametrize("text", [
    hoisted("\tadd.s32 \t%r1, %r7, %r8;", between="\tmov.b32 \t%r1, %r9;\n"),                   # written again
    hoisted("\tadd.s32 \t%r1, %r7, %r8;", between="\tmov.b64 \t{%r0, %r1}, %rd9;\n"),           # as one of two
    hoisted("\tadd.s32 \t%r1, %r7, %r8;", between="\t{ .reg .pred p; @p mov.b32 %r1, 0; }\n"),  # in assembly
    hoisted("\tadd.s32 \t%r1, %r7, %r8;", between="\tmov.b64 \t%rd1, %rd9;\n"),                 # the extension written again
    hoisted("\tadd.s32 \t%r1, %r7, %r8;", before="$L__BB0_1:"),                                 # in another block
    hoisted("\tadd.s32 \t%r1, %r7, %r8;", before="\t@%p2 bra \t$L__BB0_2;"),                    # which may be left out
    hoisted("\tld.param.b32 \t%r1, [retval0];", before="$L__BB0_1:"),                           # what a call returns
    hoisted("\tmov.b32 \t%r1, %r7;").replace("cvt.s64.s32 \t%rd1", "cvt.u64.u32 \t%rd1"),       # not a sign
    kernel("\tadd.s32 \t%r1, %r7, %r8;", ROW + PRODUCT, "\tcvt.s64.s32 \t%rd1, %r1;"),          # a product between the two
])
def test_what_may_have_changed_stays(text):
    assert wide_products(text) == text


def test_sums_of_products_and_kernels_by_themselves():
    text = hoisted("\tld.param.b32 \t%r1, [k_param_0];")
    added = text.replace(PRODUCT, "\tmad.lo.s64 \t%rd3, %rd2, %rd1, %rd4;")
    other = kernel("\tmov.b32 \t%r1, 7;", "\tmov.b32 \t%r1, 8;", PRODUCT)
    both = wide_products(added + other)
    assert "\tmad.wide.s32 \t%rd3, %r2, %r1, %rd4;" in both and both.endswith(other)
