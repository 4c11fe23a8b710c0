"""Kernels that tell how they were launched: PTX variants for the questions about the launch contract.

Each probe counts its threads in word 0 and its blocks in word 1 of its buffer; thread 0 of each block writes 16 words of
special registers (`REGISTERS`) at word 64 + 16 * slot. With hidden parameters it copies the first 32 words of the hidden
block to word 16.
"""
from __future__ import annotations

import dataclasses

REGISTERS = ("%ntid.x", "%ntid.y", "%clusterid.x", "%clusterid.y", "%nclusterid.x", "%ctaid.x", "%ctaid.y", "%nctaid.x",
             "%nctaid.y", "%cluster_ctaid.x", "%cluster_nctaid.x", "%cluster_ctarank", "%cluster_nctarank", "%smid",
             "%total_smem_size", "%dynamic_smem_size")
METADATA = ".visible .global .align 8 .b8 ___NV_TILE_LAUNCH_META_DATA___[64];"
BUFFER_BYTES = 64 * 1024


@dataclasses.dataclass(frozen=True)
class Probe:
    """A PTX variant. `language` None leaves `.language` out; `shared` is a static array's bytes; `cluster` is
    `.reqnctapercluster`; `host` names the host object to pack ("": none)."""

    name: str
    question: int
    language: int | None = 7
    metadata: bool = True
    version: str = "9.2"
    hidden: bool = False
    shared: int = 0
    cluster: int = 0
    blocks_are_clusters: bool = False
    threads: int = 128
    host: str = ""

    @property
    def ptx(self) -> str:
        hidden = ",\n  .hidden .param .align 64 .b8 probe_hidden[128]" if self.hidden else ""
        directives = [f".reqntid {self.threads}"]
        if self.cluster:
            directives.append(f".reqnctapercluster {self.cluster}")
        if self.blocks_are_clusters:
            directives.append(".blocksareclusters")
        directives.append(".minnctapersm 1")
        if self.language is not None:
            directives.append(f".language {self.language}")
        body = ["ld.param.u64 %out, [probe_out];", "cvta.to.global.u64 %out, %out;",
                "atom.global.add.u32 %r0, [%out], 1;", "mov.u32 %r1, %tid.x;", "setp.ne.u32 %p0, %r1, 0;",
                "@%p0 bra DONE;", "atom.global.add.u32 %r2, [%out+4], 1;", "min.u32 %r2, %r2, 1000;",
                "mul.wide.u32 %at, %r2, 64;", "add.u64 %at, %at, %out;"]
        for i, register in enumerate(REGISTERS):
            body += [f"mov.u32 %r3, {register};", f"st.global.u32 [%at+{256 + 4 * i}], %r3;"]
        if self.shared:   # Touch both ends, so that the array is really there.
            body += ["mov.u32 %r4, buffer;", "st.shared.u32 [%r4], %r2;", f"st.shared.u32 [%r4+{self.shared - 4}], %r3;",
                     "ld.volatile.shared.u32 %r5, [%r4];", "st.global.u32 [%out+8], %r5;"]
        for i in range(32 if self.hidden else 0):
            body += [f"ld.param.u32 %r3, [probe_hidden+{4 * i}];", f"st.global.u32 [%out+{64 + 4 * i}], %r3;"]
        lines = [f".version {self.version}", ".target sm_90a", ".address_size 64", METADATA if self.metadata else "",
                 ".visible .entry probe(", f"  .param .u64 probe_out{hidden}", ")", *directives, "{",
                 f"  .shared .align 128 .b8 buffer[{self.shared}];" if self.shared else "",
                 "  .reg .b32 %r<8>;", "  .reg .b64 %out, %at;", "  .reg .pred %p<2>;",
                 *("  " + line for line in body), "DONE:", "  ret;", "}"]
        return "\n".join(line for line in lines if line) + "\n"


def probes(hosts: tuple[str, ...] = ()) -> list[Probe]:
    """Every variant; `hosts` names the host objects that question 5 tries."""
    out = [
        Probe("language_7", 1), Probe("language_none", 1, language=None),
        Probe("language_none_no_metadata", 1, language=None, metadata=False), Probe("threads_256", 1, threads=256),
        Probe("no_metadata", 2, metadata=False), Probe("version_9_3", 2, version="9.3"),
        Probe("version_9_5", 2, version="9.5"), Probe("plain_version_8_0", 2, version="8.0", language=None, metadata=False),
        Probe("cluster_2", 3, cluster=2), Probe("cluster_1", 3, cluster=1),
        Probe("cluster_2_language_none", 3, cluster=2, language=None),
        Probe("blocks_are_clusters", 3, cluster=2, blocks_are_clusters=True, language=None),
        Probe("hidden", 4, hidden=True), Probe("hidden_language_none", 4, hidden=True, language=None),
    ]
    out += [Probe(f"language_{n}", 1, language=n) for n in (0, 1, 2, 3, 4, 5, 6, 8)]
    out += [Probe(f"host_{host}{'_hidden' if hidden else ''}", 5, hidden=hidden, host=host)
            for host in hosts for hidden in (False, True)]
    sizes = (16, 48, 49, 64, 96, 100, 128, 160, 192, 200, 208, 216, 224, 226, 227)
    out += [Probe(f"shared_{kib}k{'' if language else '_language_none'}", 7, shared=kib * 1024, language=language)
            for kib in sizes for language in (7, None) if language or kib in (48, 49, 227)]
    return out
