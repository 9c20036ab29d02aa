#!/usr/bin/env python3
"""Checks with nm and readelf what the shared library promises to its host:

- It exports minuet_* only, and everything that the public headers declare.
- It needs neither CUDA nor LLVM libraries: they are opened at first use, or linked statically and hidden.
- It runs on every Linux with glibc 2.34, for which the Python wheel is made (tools/cmake/portable_symbols.cc).
- It contains neither LLVM's RemoveFileOnSignal, which replaces the host's signal handlers, nor the code that opens
  NVRTC and the headers embedded for it, which only the helper program needs.
- Stripped, it has at most MOST_BYTES.

usage: check_library.py [--any-size] [LIBRARY] [HEADER...]
"""

import math
import pathlib
import re
import subprocess
import sys
import tempfile

import sources

NOT_NEEDED = re.compile(r"lib(cuda|cudart|nvrtc|nvrtc-builtins|cublas|cublasLt|nvJitLink|LLVM|zstd|tinfo)[-.\d]")
# The newest versions of symbols that manylinux_2_34, the platform of the Python wheel, has.
NEWEST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13)}
VERSIONED = re.compile(r"(\S+)@(GLIBC|GLIBCXX|CXXABI)_([\d.]+)$", re.MULTILINE)
NOT_LINKED = ("RemoveFileOnSignal", "PrintStackTraceOnErrorSignal", "AddSignalHandler",
              "open_nvrtc", "open_nvrtc_library", "NvrtcCompiler",
              "minuet_kernel_headers", "minuet_cuda_headers", "minuet_cccl_headers")
MOST_BYTES = 4_150_000
DECLARED = re.compile(r"^MINUET_API\s[^;]*?\b(minuet_\w+)\s*\(", re.MULTILINE)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def stripped_bytes(library):
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "stripped.so"
        run("strip", "-o", str(stripped), str(library))
        return stripped.stat().st_size


def check(library, headers, most_bytes=MOST_BYTES):
    lines = run("nm", "-D", "--defined-only", str(library)).splitlines()
    exported = {line.split()[-1].split("@")[0] for line in lines}
    declared = set()
    for header in headers:
        text = header.read_text()
        found = DECLARED.findall(text)
        # A header that others include may have types alone.
        if not found and "MINUET_API" in text:
            yield f"{header}: no declaration found, so this check sees nothing"
        declared.update(found)
    for name in sorted(exported - declared):
        kind = "is exported but in no header" if name.startswith("minuet_") else "gets out"
        yield f"{library.name}: {name} {kind}"
    for name in sorted(declared - exported):
        yield f"{library.name}: {name} is declared but not exported"

    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", "-W", str(library)))
    for name in needed:
        if NOT_NEEDED.match(name):
            yield f"{library.name}: needs {name}"

    undefined = run("nm", "-D", "--undefined-only", "--with-symbol-versions", str(library))
    for name, kind, version in VERSIONED.findall(undefined):
        if tuple(map(int, version.split("."))) > NEWEST[kind]:
            yield f"{library.name}: needs {name} of {kind} {version}, which older systems lack"

    symbols = run("nm", "-C", str(library))
    if not symbols:
        yield f"{library.name}: stripped, so what is linked in cannot be seen"
    for name in NOT_LINKED:
        if re.search(rf"\b{name}\b", symbols):
            yield f"{library.name}: {name} is linked in"

    stripped = stripped_bytes(library)
    if stripped > most_bytes and "__asan_init" not in symbols and "__tsan_init" not in symbols:
        yield (f"{library.name}: {stripped} bytes stripped, and {most_bytes} are the most: "
               "'nm -S --size-sort' shows what has come in")


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    arguments = sys.argv[1:]
    most_bytes = MOST_BYTES
    if arguments[:1] == ["--any-size"]:
        most_bytes = math.inf
        arguments = arguments[1:]
    library = pathlib.Path(arguments[0]) if arguments else root / "build/release/lib/libminuet.so"
    headers = [pathlib.Path(name) for name in arguments[1:]] or sorted((root / "include/minuet").glob("*.h"))
    if not library.exists():
        return sources.report("library", [f"{library} is not there"])
    return sources.report("library", list(check(library, headers, most_bytes)))


if __name__ == "__main__":
    sys.exit(main())
