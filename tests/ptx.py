"""PTX text, as tests compare it."""
from __future__ import annotations

import re


def body_of(ptx: str) -> str:
    """The code without what names its version and target: two that are equal compute the same."""
    return re.sub(r"^\s*(\.version|\.target|//).*$", "", ptx, flags=re.M)


ASYNCHRONOUS = re.compile(r"^\s*(?:@\S+\s+)?(cp\.async|mbarrier|wgmma|tcgen05|cp\.reduce\.async)", re.M)
"""Instructions whose work goes on after them, and those that wait for it."""
ORDERS = range(5)
"""Seeds of the order in which asynchronous operations happen; 0 is as late as may be."""
COPIES = (("TMA", "cp.async.bulk.tensor"), ("TMA", "cp.reduce.async.bulk.tensor"), ("bulk", "cp.async.bulk.shared"),
          ("bulk", "cp.async.bulk.global"), ("cp.async", "cp.async.ca"), ("cp.async", "cp.async.cg"))
PRODUCTS = (("wgmma", "wgmma.mma_async"), ("tcgen05", "tcgen05.mma"), ("mma.sync", "mma.sync"))


def is_asynchronous(ptx: str) -> bool:
    return ASYNCHRONOUS.search(ptx) is not None


def _named(ptx: str, names: tuple[tuple[str, str], ...]) -> list[str]:
    return list(dict.fromkeys(name for name, text in names if re.search(rf"\b{re.escape(text)}\b", ptx)))


def copies_of(ptx: str) -> list[str]:
    """How the code brings memory to the block beside plain loads and stores: "TMA", "bulk", "cp.async"."""
    return _named(ptx, COPIES)


def products_of(ptx: str) -> list[str]:
    """The matrix instructions that the code has: "wgmma", "tcgen05", "mma.sync"."""
    return _named(ptx, PRODUCTS)
