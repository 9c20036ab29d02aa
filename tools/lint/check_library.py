#!/usr/bin/env python3
"""What the shared library promises to its host, read off the file with nm and readelf:

- it exports minuet_* and nothing else, and all that minuet.h declares;
- it needs neither CUDA nor an LLVM: those are opened at first use, or linked in and hidden;
- LLVM's RemoveFileOnSignal, which replaces the host's signal handlers, is not linked, nor what opens NVRTC, which is
  for the helper program alone;
- stripped, and without zstd, a C++ runtime and the headers that are embedded for NVRTC, it is at most 1 MiB
  with g++ 12, and a quarter more with other compilers.

usage: check_library.py [LIBRARY] [MINUET_H]
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import sources

NOT_NEEDED = re.compile(r"lib(cuda|cudart|nvrtc|nvrtc-builtins|cublas|cublasLt|nvJitLink|LLVM|zstd)[-.\d]")
NOT_LINKED = ("RemoveFileOnSignal", "PrintStackTraceOnErrorSignal", "AddSignalHandler",
              "open_nvrtc", "open_nvrtc_library", "NvrtcCompiler")
# R36's megabyte. zstd does not count: its archive comes in one piece, compressor and old formats included. It is held
# with g++ 12: clang makes a twentieth more, g++ 13 an eighth, and a C++ runtime that is linked in brings tables.
MOST_BYTES = 1 << 20
MOST_BYTES_ELSEWHERE = MOST_BYTES * 5 // 4
EMBEDDED = re.compile(r"^([0-9a-f]+) \w (minuet_\w+_headers)(_end)?$", re.MULTILINE)
# In the linker's map (libminuet.map beside the library): a section that was not dropped, of a member of zstd's archive
# or of the C++ runtime's, where that is linked in: the system has no shared one for developers then. A long name of a
# section stands on a line of its own.
NOT_OURS = re.compile(r"^ \.(?!debug|comment|note|bss)\S+\s+0x0*[1-9a-f][0-9a-f]*\s+0x([0-9a-f]+) "
                      r"\S*(?:libzstd|libstdc\+\+|libgcc|libgcc_eh)\.a\(", re.MULTILINE)
DECLARED = re.compile(r"^MINUET_API\s[^;]*?\b(minuet_\w+)\s*\(", re.MULTILINE)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def embedded_bytes(library):
    """Of the packed headers: from each symbol to its _end."""
    ends, begins = {}, {}
    for address, name, end in EMBEDDED.findall(run("nm", str(library))):
        (ends if end else begins)[name] = int(address, 16)
    return sum(ends[name] - begins[name] for name in begins if name in ends)


def own_bytes(library):
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "stripped.so"
        run("strip", "-o", str(stripped), str(library))
        size = stripped.stat().st_size
    link_map = library.with_name("libminuet.map")
    others = sum(int(bytes_of, 16) for bytes_of in NOT_OURS.findall(link_map.read_text())) if link_map.exists() else 0
    return size - embedded_bytes(library) - others


def is_of_gcc_12(library):
    compilers = run("readelf", "-p", ".comment", str(library))
    return "clang" not in compilers and set(re.findall(r"GCC: \(.*?\) (\d+)\.", compilers)) == {"12"}


def check(library, header, most_bytes=None):
    lines = run("nm", "-D", "--defined-only", str(library)).splitlines()
    exported = {line.split()[-1].split("@")[0] for line in lines}
    declared = set(DECLARED.findall(header.read_text()))
    if not declared:
        yield f"{header}: no declaration found, so this check sees nothing"
    for name in sorted(exported - declared):
        kind = "is exported but not in minuet.h" if name.startswith("minuet_") else "gets out"
        yield f"{library.name}: {name} {kind}"
    for name in sorted(declared - exported):
        yield f"{library.name}: {name} is in minuet.h but not exported"

    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", "-W", str(library)))
    for name in needed:
        if NOT_NEEDED.match(name):
            yield f"{library.name}: needs {name}"

    symbols = run("nm", "-C", str(library))
    if not symbols:
        yield f"{library.name}: stripped, so what is linked in cannot be seen"
    for name in NOT_LINKED:
        if re.search(rf"\b{name}\b", symbols):
            yield f"{library.name}: {name} is linked in"

    own = own_bytes(library)
    if most_bytes is None:
        most_bytes = MOST_BYTES if is_of_gcc_12(library) else MOST_BYTES_ELSEWHERE
    if own > most_bytes and "__asan_init" not in symbols and "__tsan_init" not in symbols:
        yield (f"{library.name}: {own} bytes stripped, without embedded headers, zstd and a C++ runtime, and "
               f"{most_bytes} are the most: 'nm -S --size-sort' shows what has come in")


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    library = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / "build/release/lib/libminuet.so"
    header = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else root / "include/minuet/minuet.h"
    if not library.exists():
        return sources.report("library", [f"{library} is not there"])
    return sources.report("library", list(check(library, header)))


if __name__ == "__main__":
    sys.exit(main())
