#!/usr/bin/env python3
"""Checks that each header compiles alone: public headers as C and as C++ with warnings as errors, others as C++20.

Large headers are precompiled for those headers that include them anyway, directly or indirectly, so that no missing
include is hidden. A successful compile is not repeated until one of its files changes.

usage: check_headers.py [--public] [--cc CC] [--cxx CXX] [--build BUILD_FOLDER] [ROOT]

Include folders of third-party libraries are read from BUILD_FOLDER/compile_commands.json. --public: checks only the
public headers, which need nothing except a compiler.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading

import kept
import sources

AHEAD = "codegen/base/error.h"
THREADS = "codegen/base/cancel_token.h"  # This header includes the standard headers for threads and for waiting.
EMIT = "codegen/source/emit.h"  # This header includes every kernel's Spec (compile-time parameters).
CHOICE = "codegen/choose/candidates.h"  # This header includes what is chosen for every kind of layer.
ENGINE = "runtime/engine/engine.h"  # Most headers of the runtime include this header.
CUDA = "runtime/cuda/cuda_device.h"  # This header includes the headers of CUDA's libraries.
NETWORK = "runtime/network/network_description.h"
PLAN = "runtime/plan/plan.h"  # This header includes NETWORK, programs, weights and the kernel cache.
ABI = "tests/support/abi.h"  # The fixtures of tests through the C ABI include this header.
# Each row lists headers that take long to parse and are precompiled together. A header is checked with the
# first row whose headers it includes, so larger rows come first.
READ_AHEAD = (("gmock/gmock.h", "gtest/gtest.h", AHEAD, ABI, "tests/runtime/execution/execution_fixture.h"),
              ("gmock/gmock.h", "gtest/gtest.h", AHEAD), ("gtest/gtest.h", AHEAD, ABI), ("gtest/gtest.h", AHEAD),
              (AHEAD, THREADS, EMIT, ENGINE, PLAN), (AHEAD, THREADS, EMIT, ENGINE, CUDA),
              (AHEAD, THREADS, EMIT, ENGINE), (AHEAD, THREADS, EMIT), (AHEAD, EMIT, CHOICE, NETWORK),
              (AHEAD, EMIT, CHOICE), (AHEAD, EMIT), (AHEAD, "vector"), (AHEAD,),
              ("CLI/CLI.hpp", "llvm/Support/Error.h"), ("llvm/Support/Error.h", "tools/minuet/cloud/cloud.h"),
              ("llvm/Support/Error.h",), ("gtest/gtest.h",), ("functional", "string", "vector"), ("string",),
              ("kernels_templates/shared/types.h",))
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
# These folders hold device code, which this check does not compile. NVRTC compiles it, and so do the tests on the CPU,
# which include their own declarations of CUDA's functions first (tests/support/shim).
DEVICE_ONLY = ("kernels_templates/core/", "kernels_templates/map/", "kernels_templates/gmas/",
               "kernels_templates/dense/", "kernels_templates/depthwise/", "kernels_templates/fused/",
               "kernels_templates/pool/", "kernels_templates/parameters/", "kernels_templates/pointwise/",
               "kernels_templates/points/", "kernels_templates/gradient/", "kernels_templates/select/",
               "kernels_templates/space/", "kernels_templates/batch_norm/",
               "tests/kernels_templates/device/",
               "tests/support/software_cuda/twins/kernels_templates/")
# The C header of jaxlib, and our header of custom calls for XLA, which programs in C include.
JAXLIB_HEADER = "xla/ffi/api/c_api.h"
XLA_HEADER = "runtime/bindings/xla/minuet_xla.h"


def dependency_flags(build):
    """Returns the flags for third-party and generated include folders of all targets."""
    commands = build / "compile_commands.json"
    flags = []
    for entry in json.loads(commands.read_text()) if commands.exists() else []:
        words = shlex.split(entry["command"])
        for index, word in enumerate(words):
            if word == "-isystem" and index + 1 < len(words):
                flags.append(("-isystem", words[index + 1]))
            elif word.startswith("-isystem") and word != "-isystem":
                flags.append(("-isystem", word[len("-isystem"):]))
            elif word.startswith("-I") and str(build) in word:
                flags.append(("-I", word[2:]))
    # Folders in `build` come first, because a generated header there replaces one of LLVM's
    # (MinuetLlvm.cmake).
    return [part for pair in sorted(set(flags), key=lambda pair: (str(build) not in pair[1], pair)) for part in pair]


def named(root, header):
    """Returns the names of all files that the header includes, directly or through files of the repository."""
    return {name for path in kept.closure(root, header) for name in
            [str(path), *kept.INCLUDE.findall((root / path).read_text(errors="replace") if (root / path).is_file() else "")]}


class Ahead:
    """Precompiles each list of READ_AHEAD once, when the first header needs it."""

    def __init__(self, compiler, flags, folder):
        self.compiler, self.flags, self.folder = compiler, flags, pathlib.Path(folder)
        # This option of clang instantiates templates in the precompiled header, so that its users need not do so.
        self.whole = ["-fpch-instantiate-templates"] if "clang" in kept.version(compiler) else []
        self.locks = {names: threading.Lock() for names in READ_AHEAD}

    def flags_for(self, names):
        file = self.folder / f"{READ_AHEAD.index(names)}.h"
        with self.locks[names]:
            if not file.exists():
                file.write_text("".join(f"#include <{name}>\n" for name in names))
                subprocess.run([*shlex.split(self.compiler), *self.flags, *self.whole, "-x", "c++-header", str(file), "-o",
                                f"{file}.gch"], check=True)
        return ["-include", str(file)]


def compile_alone(compiler, language, header, flags, root):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / ("alone." + ("c" if language == "c" else "cc"))
        # The source includes the header twice, so that a missing include guard is an error.
        source.write_text(f'#include "{header}"\n#include "{header}"\n')
        run = subprocess.run([*shlex.split(compiler), *flags, str(source)], capture_output=True, text=True, cwd=root)
    if run.returncode == 0:
        return []
    first = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr.strip()[:300])
    return [f"{header} does not compile alone with {' '.join([compiler, *flags[:1]])}: {first}"]


def our_flags(root, build):
    return ["-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{root}", f"-I{root}/include", *dependency_flags(build)]


def jobs(root, options):
    """Yields (compiler, language, header, flags, precompiled list) for each compile."""
    include = f"-I{root}/include"
    for header in sorted((root / "include/minuet").glob("*.h")):
        yield options.cc, "c", f"minuet/{header.name}", ["-std=c99", *STRICT, include], ()
        yield options.cxx, "c++", f"minuet/{header.name}", ["-std=c++11", *STRICT, include], ()
    if (root / "include/minuet/minuet.hpp").exists():
        yield options.cxx, "c++", "minuet/minuet.hpp", ["-std=c++17", *STRICT, include], ()
        yield options.cxx, "c++", "minuet/minuet.hpp", ["-std=c++20", *STRICT, include], ()
    if options.public:
        return
    flags = our_flags(root, options.build)
    if (root / XLA_HEADER).exists():
        yield options.cc, "c", XLA_HEADER, ["-std=c99", *STRICT, f"-I{root}"], ()
    has_jaxlib = any((pathlib.Path(folder) / JAXLIB_HEADER).exists() for folder in flags if not folder.startswith("-"))
    for path in sources.code_files(root):
        if path.suffix == ".h" and path.parts[0] != "include" and not str(path).startswith(DEVICE_ONLY):
            names = named(root, path)
            if JAXLIB_HEADER in names and not has_jaxlib:
                continue  # What includes it is not built here either (runtime/bindings/xla/CMakeLists.txt).
            yield options.own_cxx, "c++", str(path), ["-fsyntax-only", *flags], next(
                (ahead for ahead in READ_AHEAD if names.issuperset(ahead) and str(path) not in ahead), ())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--public", action="store_true")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--cxx", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    # Headers take less time to parse with clang than with g++.
    options.own_cxx = shutil.which("clang++") or options.cxx
    options.root = options.root.resolve()
    options.build = (options.build or options.root / "build/release").resolve()
    results = kept.Results(options.build.parent / "kept-headers")

    def compile_or_remember(job):
        compiler, language, header, flags, names = job
        path = pathlib.Path("include" if header.startswith("minuet/") else ".") / header
        key = results.key(options.root, path, kept.version(compiler), *flags, *names)
        problems = []
        if key not in results:
            flags = flags + (ahead.flags_for(names) if names else [])
            problems = compile_alone(compiler, language, header, flags, options.root)
        if not problems:
            results.keep(key)
        return problems

    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        ahead = Ahead(options.own_cxx, our_flags(options.root, options.build), folder)
        found = list(pool.map(compile_or_remember, jobs(options.root, options)))
    results.save()
    return sources.report(f"headers ({len(found)} compiles)", [problem for problems in found for problem in problems])


if __name__ == "__main__":
    sys.exit(main())
