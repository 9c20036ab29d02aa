#!/usr/bin/env python3
"""Each header compiles alone: the public ones as C and as C++ with warnings as errors, ours as C++20.

A header that its own .cc includes before all else has been compiled alone there, and is not compiled again. Targets
read codegen/error.h ahead (minuet_precompile): that hides nothing from a file that includes it by any road, and a
source that does not must not read it. A compile that went well is not repeated until a file in it changes.

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
import subprocess
import sys
import tempfile

import kept
import sources

AHEAD = pathlib.Path("codegen/error.h")
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
# Device code: compiled by NVRTC, and by the tests' shim with what the shim puts in front.
DEVICE_ONLY = ("kernels_templates/core/", "kernels_templates/map/", "kernels_templates/gmas/",
               "kernels_templates/fused/",
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
    return [part for pair in sorted(set(flags)) for part in pair]


def ahead_flags(build):
    """The flags with which codegen/error.h was read ahead, for headers that include it anyway."""
    commands = build / "compile_commands.json"
    for entry in json.loads(commands.read_text()) if commands.exists() else []:
        if entry["file"].endswith("/codegen/error.cc") and "cmake_pch" in entry["command"]:
            words = shlex.split(entry["command"])
            return words[next(i for i, word in enumerate(words) if word.startswith("-")):words.index("-o")]
    return []


def compiled_files(build):
    """What is compiled, and whether with codegen/error.h read ahead."""
    commands = build / "compile_commands.json"
    entries = json.loads(commands.read_text()) if commands.exists() else []
    return {entry["file"]: "cmake_pch" in entry["command"] for entry in entries}


def first_in_its_source(root, header, compiled):
    """Whether the .cc beside the header is compiled and includes it before anything else."""
    source = root / header.with_suffix(".cc")
    if str(source) not in compiled or (compiled[str(source)] and AHEAD not in kept.closure(root, header)):
        return False
    first = next((line for line in source.read_text().splitlines() if line.startswith("#")), "")
    return first == f'#include "{header}"'


def helped(root, compiled):
    """Sources whose missing includes would not show."""
    for name, ahead in sorted(compiled.items()):
        path = pathlib.Path(name)
        if ahead and path.suffix == ".cc" and path.is_relative_to(root) and path.parts[-2] != "Unity":
            path = path.relative_to(root)
            if path.parts[0] != "tests" and AHEAD not in kept.closure(root, path):
                yield f"{path}: reads {AHEAD} ahead and does not include it: name it WITHOUT in its CMakeLists.txt"


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


def jobs(root, options):
    include = f"-I{root}/include"
    for header in sorted((root / "include/minuet").glob("*.h")):
        yield options.cc, "c", f"minuet/{header.name}", ["-std=c99", *STRICT, include]
        yield options.cxx, "c++", f"minuet/{header.name}", ["-std=c++11", *STRICT, include]
    if (root / "include/minuet/minuet.hpp").exists():
        yield options.cxx, "c++", "minuet/minuet.hpp", ["-std=c++17", *STRICT, include]
        yield options.cxx, "c++", "minuet/minuet.hpp", ["-std=c++20", *STRICT, include]
    if options.public:
        return
    flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{root}", include,
             *dependency_flags(options.build)]
    ahead = ahead_flags(options.build)
    compiled = compiled_files(options.build)
    for path in sources.code_files(root):
        if (path.suffix == ".h" and path.parts[0] != "include" and not str(path).startswith(DEVICE_ONLY)
                and not first_in_its_source(root, path, compiled)):
            yield options.cxx, "c++", str(path), ahead + flags if AHEAD in kept.closure(root, path) else flags


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--public", action="store_true")
    parser.add_argument("--cc", default=os.environ.get("CC", "cc"))
    parser.add_argument("--cxx", default=os.environ.get("CXX", "c++"))
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    options.root = options.root.resolve()
    options.build = (options.build or options.root / "build/release").resolve()
    results = kept.Results(options.build.parent / "kept-headers")

    def compile_or_remember(job):
        compiler, _, header, flags = job
        path = pathlib.Path("include" if header.startswith("minuet/") else ".") / header
        key = results.key(options.root, path, kept.version(compiler), *flags)
        problems = [] if key in results else compile_alone(*job, options.root)
        if not problems:
            results.keep(key)
        return problems

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(compile_or_remember, jobs(options.root, options)))
    results.save()
    found.append(list(helped(options.root, compiled_files(options.build))))
    return sources.report(f"headers ({len(found) - 1} compiles)", [problem for problems in found for problem in problems])


if __name__ == "__main__":
    sys.exit(main())
