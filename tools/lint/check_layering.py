#!/usr/bin/env python3
"""Checks which folder includes which, what library code may never call, and how overlapping kernels may read memory.

usage: check_layering.py [ROOT]

A folder may include the territories listed for it below and no other territory. A name that belongs to no territory
is a system header: it is allowed in <>, and an error in quotes, because include paths of this repository always start
at its root. A room of codegen, runtime or the command-line tool may include only the rooms on the floors below its
own.
"""

import pathlib
import re
import sys

import sources

# Each row has the name of a territory, which is a group of headers with the same rules, and a pattern of include paths.
# The first pattern that matches a path decides its territory.
TERRITORIES = [
    ("shared", r"kernels_templates/(shared/|kernels\.inc$)"),
    ("templates", r"kernels_templates/"),
    ("codegen", r"codegen/"),
    ("custom calls", r"runtime/bindings/xla/"),
    ("runtime", r"runtime/"),
    # The command-line tool may include this header of the tests, because it uses the generated clouds too.
    ("clouds", r"tests/support/clouds\.h$"),
    ("tests", r"tests/"),
    ("command line", r"tools/minuet/"),
    ("tools", r"tools/"),
    ("public", r"minuet/"),
    ("element", r"cuda_(fp16|bf16)\.h$"),  # These headers define the types of fp16 and bf16 elements in device code.
    ("nvrtc", r"nvrtc\.h$"),
    ("cub", r"(cub|cuda|nv)/"),
    ("cuda", r"(cuda|cublas|cudart|driver_types|vector_types|library_types|nvtx3/)"),
    ("llvm", r"llvm(-c)?/"),
    ("eigen", r"(Eigen|unsupported)/"),
    ("zstd", r"zstd"),
    ("xla", r"xla/ffi/api/c_api\.h$"),  # The C header that jaxlib ships.
    ("test tools", r"(gtest|gmock|benchmark|CLI)/"),
    ("command-line tools", r"(lzf|zlib)\.h$|liblzf/"),
]

# Maps a folder to the territories whose headers it may include. For a file, the entry with the longest folder path that
# contains it decides.
ALLOWED = {
    "include": {"public"},
    "kernels_templates": {"shared", "templates", "element", "cub"},
    "kernels_templates/shared": {"shared"},
    "codegen": {"shared", "codegen", "llvm", "zstd", "nvrtc"},
    "runtime": {"shared", "codegen", "runtime", "public", "llvm", "zstd", "eigen", "element", "cuda"},
    "runtime/bindings": {"public"},
    "runtime/bindings/xla": {"public", "custom calls", "xla"},
    "tests": None,  # The value None allows headers of every territory.
    "tools": None,
    "tools/minuet": {"shared", "codegen", "public", "llvm", "cuda", "clouds", "command line", "test tools",
                     "command-line tools"},
}

# Lists the rooms (subfolders) of each folder by floors, the highest floor first. A room may include only headers of
# rooms on lower floors. All rooms of codegen are below those of runtime, which are below those of the command-line
# tool.
FLOORS = {
    "tools/minuet": (("commands",), ("flags",), ("pages",), ("library",), ("cloud",), ("base",)),
    "runtime": (("abi",), ("tuning",), ("training",), ("execution",), ("maps", "plan"), ("network", "cuda", "cpu"),
                ("program",), ("engine", "weights"), ("vector",)),
    "codegen": (("ahead",), ("tuning",), ("cache",), ("bundle",), ("compile", "choose"), ("source",), ("base",)),
}
FLOOR_OF = {f"{house}/{room}": number for number, (house, rooms) in enumerate(
    (house, rooms) for house, floors in FLOORS.items() for rooms in floors) for room in rooms}
# The adapters to other software in this folder may include only the public headers.
BINDINGS = "runtime/bindings"
BESIDE_ROOMS = ("README.md", "CMakeLists.txt", "main.cc", "REFERENCE.md", "FILES.md", "JSON.md")

# Code in the folders LIBRARY may not use the names that BANNED matches. cl::opt registers globally, and the others
# replace signal handlers, print, or end the process.
LIBRARY = ("codegen/", "runtime/", "kernels_templates/shared/")
PROGRAMS = ("codegen/source/embed/embed_headers.cc",)  # This program runs only during the build and may print.
BANNED = re.compile(r"\b(TempFile|LockFileManager|FileOutputBuffer|ToolOutputFile|localCache|InitLLVM|cl::opt|"
                    r"std::cout|std::cerr|std::abort|std::exit|report_fatal_error|printf|fprintf)\b")
# LLVM 14 has methods with these names, which LLVM 19 has renamed, so no name works with both.
RENAMED = re.compile(r"\.(startswith|endswith)\(")
# The header of AddressSanitizer and LLVM's headers do not compile together with g++, so only the files in
# SANITIZER_FILES include the former.
SANITIZER_HEADER = re.compile(r'#\s*include\s*[<"](sanitizer/\w+\.h)')
SANITIZER_FILES = ("tests/support/shim/sanitizers.h", "runtime/engine/arena.h")
# The kernels in the files OVERLAPPING may start before the preceding launch has ended. They may not read with the
# functions that READ_ONLY matches, because the read-only cache could return old data
# (kernels_templates/core/programmatic.h).
OVERLAPPING = ("kernels_templates/map/", *(f"kernels_templates/core/{name}.h" for name in ("jobs", "search", "view_rows")))
READ_ONLY = re.compile(r"\b(__ldg|read_only|load_vector<|start_load_if|load_row_if\b(?!<true)|load_vector_if\b(?!<\w+, true))")
# A kernel waits for the preceding launch by follow_last_launch(). Before that, it may only compute, call the functions
# of EARLY_CALLS, which read with those of kernels_templates/core/early_loads.h, and use references to *p.index.
KERNEL = re.compile(r"MINUET_KERNEL\b[^{;]*\{(.*?)\n\}", re.DOTALL)
EARLY_CALLS = re.compile(r"read_early|load_early_if<\w+>|find_view_starts<S\.threads, true>|begin_search<S\.ndim, S\.threads>"
                         r"|grid_threads?|walk|advance|begin|if|for|static_cast<\w+>|static_assert")
CALL = re.compile(r"\b(\w+(?:<[^;()]*?>)?)\(")
SHORT_LAMBDA = re.compile(r"\{ return [^{}]*; \}")
TOO_EARLY = re.compile(r"\breturn\b|->|\*p\.(?!index\b)\w+|\bp\.(?!jobs\b)\w+\[")
INCLUDE = re.compile(r'\s*#\s*include\s*(<([^>]+)>|"([^"]+)")')
COMMENT = re.compile(r"//.*$")


def territory(name):
    return next((title for title, pattern in TERRITORIES if re.match(pattern, name)), None)


def folder_of(path):
    parents = [str(parent) for parent in path.parents]
    return next((folder for folder in parents if folder in ALLOWED), None)


def room_of(path):
    parents = map(str, pathlib.PurePath(path).parents)
    return next((parent for parent in parents if parent in FLOOR_OF), None)


def check_rooms(paths):
    """Checks that every file of codegen, runtime and tools/minuet is in a room with a README and a CMakeLists.txt."""
    for path in paths:
        house = next((house for house in FLOORS if str(path).startswith(house + "/")), None)
        if house is None or room_of(path) or str(path).startswith(BINDINGS):
            continue
        if str(path.parent) != house:
            yield f"{path}: {house} has no room {path.relative_to(house).parts[0]}"
        elif path.name not in BESIDE_ROOMS:
            yield f"{path}: {house} holds rooms, and no files but {', '.join(BESIDE_ROOMS)}"
    there = {str(path) for path in paths}
    for room in sorted({room_of(path) for path in paths} - {None}):
        for name in ("README.md", "CMakeLists.txt"):
            if f"{room}/{name}" not in there:
                yield f"{room}: the room has no {name}"


# Users build the programs in these folders outside of the repository, so that their headers lie beside them.
BUILT_APART = ("tests/examples/compiler", "tests/examples/farm")


def check_includes(path, text, root):
    folder = folder_of(path)
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        name = match[2] or match[3]
        found = territory(name)
        allowed = ALLOWED[folder]
        own_room, other_room = room_of(path), room_of(name)
        if found and allowed is not None and found not in allowed:
            yield f"{path}:{number}: {folder} may not include {name}"
        elif own_room and other_room and own_room != other_room and FLOOR_OF[own_room] >= FLOOR_OF[other_room]:
            yield f"{path}:{number}: the room {own_room} may not include {name}, which is not below it"
        # Generated headers have no file in the repository; their names contain "generated".
        elif match[3] and not found and not (root / name).exists() and "generated" not in name and not (
                str(path.parent) in BUILT_APART and (root / path.parent / name).exists()):
            yield f"{path}:{number}: \"{name}\" is no path from the root of the repository"


def check_banned(path, text):
    if not str(path).startswith(LIBRARY) or str(path) in PROGRAMS:
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = BANNED.search(COMMENT.sub("", line))
        if match:
            yield f"{path}:{number}: {match[1]} may not be used in the library"


def check_renamed(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        match = RENAMED.search(line)
        if match:
            yield f"{path}:{number}: LLVM 19 has no {match[1]}: take_front() or take_back(), or a std::string_view"


def check_sanitizer_headers(path, text):
    if str(path) in SANITIZER_FILES:
        return
    for name in SANITIZER_HEADER.findall(text):
        yield f"{path}: {name} is included by {' and '.join(SANITIZER_FILES)} only; tests call those of memory_access.h"


def find_too_early(before):
    """Returns what a kernel must not do before follow_last_launch(), or None."""
    code = SHORT_LAMBDA.sub("", "\n".join(COMMENT.sub("", line) for line in before.splitlines()))
    if match := TOO_EARLY.search(code):
        return match[0]
    return next((call for call in CALL.findall(code) if not EARLY_CALLS.fullmatch(call)), None)


def check_fresh(path, text):
    if not str(path).startswith(OVERLAPPING):
        return
    for number, line in enumerate(text.splitlines(), 1):
        match = READ_ONLY.search(COMMENT.sub("", line))
        if match:
            yield f"{path}:{number}: {match[1]} may read what the launch before has yet to write: fresh(), or Fresh"
    for kernel in KERNEL.findall(text):
        before, wait, _ = kernel.partition("follow_last_launch();")
        if not wait:
            yield f"{path}: a kernel of map/ never calls follow_last_launch()"
        elif early := find_too_early(before):
            yield f"{path}: {early} comes before follow_last_launch(), where only core/early_loads.h may read"


def check(root):
    problems, nvrtc_users = list(check_rooms(sources.all_files(root))), []
    for path in sources.code_files(root):
        if folder_of(path) is None:
            continue
        text = (root / path).read_text(errors="replace")
        problems += check_includes(path, text, root)
        problems += check_banned(path, text)
        problems += check_renamed(path, text)
        problems += check_sanitizer_headers(path, text)
        problems += check_fresh(path, text)
        if str(path).startswith("codegen/") and re.search(r"#\s*include\s*<nvrtc\.h>", text):
            nvrtc_users.append(str(path))
    if len(nvrtc_users) > 1:
        problems.append("nvrtc.h is included by one file of codegen only, and these do: " + ", ".join(nvrtc_users))
    return problems


if __name__ == "__main__":
    default = pathlib.Path(__file__).resolve().parents[2]
    sys.exit(sources.report("layering", check(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default)))
