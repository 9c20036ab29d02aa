#!/usr/bin/env python3
"""Each header compiles alone: the public ones as C and as C++ with warnings as errors, ours as C++20.

The large headers of others are read ahead, precompiled, for those of ours that include them anyway, by any road: that
hides nothing. A compile that went well is not repeated until a file in it changes.

usage: check_headers.py [--public] [--cc CC] [--cxx CXX] [--build BUILD_FOLDER] [ROOT]

Include folders of what we build on are read from BUILD_FOLDER/compile_commands.json. --public: only
the public headers, which need nothing but a compiler.
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
THREADS = "codegen/base/cancel_token.h"  # brings what waits for threads
EMIT = "codegen/source/emit.h"  # brings every kernel's Spec
# What takes longest to read, the largest lists first.
READ_AHEAD = (("gmock/gmock.h", "gtest/gtest.h", AHEAD), ("gtest/gtest.h", AHEAD), (AHEAD, THREADS, EMIT),
              (AHEAD, EMIT), (AHEAD,),
              ("CLI/CLI.hpp", "llvm/Support/Error.h"), ("llvm/Support/Error.h",), ("gtest/gtest.h",),
              ("functional", "string", "vector"), ("string",))
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
# Device code: compiled by NVRTC, and by the tests' shim with what the shim puts in front.
DEVICE_ONLY = ("kernels_templates/core/", "kernels_templates/map/", "kernels_templates/gmas/",
               "kernels_templates/fused/", "kernels_templates/pool/",
               "tests/kernels_templates/device/", "tests/support/software_cuda/twins/kernels_templates/")


def dependency_flags(build):
    """Include folders outside of the repository, and generated ones, of any target."""
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
    # Generated ones first: they stand for some of others (MinuetLlvm.cmake).
    return [part for pair in sorted(set(flags), key=lambda pair: (str(build) not in pair[1], pair)) for part in pair]


def named(root, header):
    """All that the header includes, by any road through files of ours."""
    return {name for path in kept.closure(root, header) for name in
            [str(path), *kept.INCLUDE.findall((root / path).read_text(errors="replace") if (root / path).is_file() else "")]}


class Ahead:
    """Lists of READ_AHEAD, each compiled once, when the first header needs it."""

    def __init__(self, compiler, flags, folder):
        self.compiler, self.flags, self.folder = compiler, flags, pathlib.Path(folder)
        # Templates too, which would else be made again in each that reads it.
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
        # Twice, so that a missing include guard shows.
        source.write_text(f'#include "{header}"\n#include "{header}"\n')
        run = subprocess.run([*shlex.split(compiler), *flags, str(source)], capture_output=True, text=True, cwd=root)
    if run.returncode == 0:
        return []
    first = next((line for line in run.stderr.splitlines() if "error" in line), run.stderr.strip()[:300])
    return [f"{header} does not compile alone with {' '.join([compiler, *flags[:1]])}: {first}"]


def our_flags(root, build):
    return ["-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{root}", f"-I{root}/include", *dependency_flags(build)]


def jobs(root, options):
    """Compiler, language, header, flags, and what is read ahead."""
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
    for path in sources.code_files(root):
        if path.suffix == ".h" and path.parts[0] != "include" and not str(path).startswith(DEVICE_ONLY):
            names = named(root, path)
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
    options.own_cxx = shutil.which("clang++") or options.cxx  # which reads them in less time, where it is there
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
