"""Writes minuet/_abi.py, the ctypes declarations of the C ABI, from the public headers.

usage: generate_abi.py [--check]

The headers are preprocessed by the C compiler ($CC, else cc) and parsed by pycparser, so that the declarations follow
the rules of C and not a pattern. The result is committed, because a wheel is built and used where neither is there.
With --check nothing is written, and the exit code is 1 where the committed file differs from the headers.
"""

from __future__ import annotations

import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from pycparser import c_ast, c_parser  # type: ignore[import-untyped]

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parents[2] / "include"
TARGET = HERE / "minuet" / "_abi.py"

# Stands in for <stdint.h> and <stddef.h>, whose real text has extensions of the compiler that pycparser does not read.
STANDARD_TYPES = """
typedef signed char int8_t; typedef unsigned char uint8_t; typedef int int32_t; typedef unsigned int uint32_t;
typedef long int64_t; typedef unsigned long uint64_t; typedef unsigned long size_t;
"""
# Matches the value of a macro that is a number or a string.
VALUE = r'\d+(\.\d+)?(e[+-]?\d+)?|".*"'
SCALARS = {
    "int8_t": "c_int8",
    "uint8_t": "c_uint8",
    "int32_t": "c_int32",
    "uint32_t": "c_uint32",
    "int64_t": "c_int64",
    "uint64_t": "c_uint64",
    "size_t": "c_size_t",
    "float": "c_float",
    "double": "c_double",
    "char": "c_char",
    "int": "c_int",
}
PROLOGUE = '''"""The C ABI of libminuet as ctypes declarations. generate_abi.py wrote this file from include/minuet; do not edit it.

Objects of the library and pointers to numbers are c_void_p, which takes an address, an array or byref(). Pointers to
structs are typed, so that ctypes refuses another struct. Integers that do not fit a field are refused (_integers.py).
"""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

from ._integers import Structure

'''


def headers_of(include: pathlib.Path) -> list[str]:
    """Returns the names of the C headers in a folder `include`, minuet.h first, on which the others build."""
    names = sorted(path.stem for path in (include / "minuet").glob("*.h"))
    return sorted(names, key=lambda name: name != "minuet")


def preprocess(*flags: str, include: pathlib.Path = INCLUDE) -> str:
    """Returns the headers after the preprocessor. _WIN32 makes MINUET_API empty, an attribute elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("stdint.h", STANDARD_TYPES), ("stddef.h", "")):
            (pathlib.Path(folder) / name).write_text("#pragma once\n" + text)
        includes = "".join(f"#include <minuet/{name}.h>\n" for name in headers_of(include))
        command = [
            os.environ.get("CC", "cc"),
            "-E",
            "-P",
            "-xc",
            "-nostdinc",
            "-D_WIN32",
            f"-I{folder}",
            f"-I{include}",
            *flags,
            "-",
        ]
        done = subprocess.run(command, input=includes, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"generate_abi.py: the headers do not preprocess:\n{done.stderr}")
    return done.stdout


class Declarations:
    """Collects what the headers declare, and says each C type in ctypes' terms."""

    def __init__(self) -> None:
        self.typedefs: dict[str, c_ast.Node] = {}
        self.constants: dict[str, int] = {}
        self.structs: list[tuple[str, c_ast.Struct]] = []
        self.callbacks: list[tuple[str, c_ast.FuncDecl]] = []
        self.functions: list[tuple[str, c_ast.FuncDecl]] = []

    def read(self, text: str) -> None:
        for node in c_parser.CParser().parse(text).ext:
            if isinstance(node, c_ast.Typedef):
                self.read_typedef(node)
            elif isinstance(node.type, c_ast.FuncDecl):
                self.functions.append((node.name, node.type))
            elif isinstance(node.type, c_ast.Enum):
                self.read_enum(node.type)
            else:
                sys.exit(f"generate_abi.py: {node.coord}: a declaration of an unknown kind; teach it to this script")

    def read_typedef(self, node: c_ast.Typedef) -> None:
        self.typedefs[node.name] = node.type
        inner = node.type.type
        if isinstance(node.type, c_ast.PtrDecl) and isinstance(inner, c_ast.FuncDecl):
            self.callbacks.append((node.name, inner))
        elif isinstance(inner, c_ast.Enum):
            self.read_enum(inner)
        elif isinstance(inner, c_ast.Struct) and inner.decls:
            self.structs.append((node.name, inner))

    def read_enum(self, node: c_ast.Enum) -> None:
        following = 0
        for item in node.values.enumerators:
            if item.value is not None:
                following = int(item.value.value, 0)
            self.constants[item.name] = following
            following += 1

    def base(self, name: str) -> str:
        """Returns the ctypes type of a type by its name: a scalar, or a struct of the headers."""
        if name in SCALARS:
            return SCALARS[name]
        node = self.typedefs[name].type
        if isinstance(node, c_ast.Enum):
            return "c_int"
        if isinstance(node, c_ast.Struct):
            return name if node.decls else "opaque"
        return self.base(node.names[-1])

    def of(self, node: c_ast.Node) -> str:
        """Returns the ctypes type of a declared type."""
        if isinstance(node, c_ast.ArrayDecl):
            return f"{self.of(node.type)} * {self.length(node.dim)}"
        if isinstance(node, c_ast.PtrDecl):
            return self.pointer(node.type)
        name: str = node.type.names[-1]
        if name in (callback for callback, _ in self.callbacks):
            return name
        return "None" if name == "void" else self.base(name)

    def pointer(self, target: c_ast.Node) -> str:
        if isinstance(target, c_ast.FuncDecl):
            return self.function_type(target)
        if isinstance(target, c_ast.PtrDecl):
            return "c_void_p"
        name = target.type.names[-1]
        if name == "void":
            return "c_void_p"
        of = self.base(name)
        if of == "c_char":
            return "c_char_p"
        return f"POINTER({of})" if of == name else "c_void_p"

    def length(self, node: c_ast.Node) -> int:
        if isinstance(node, c_ast.BinaryOp) and node.op == "+":
            return self.length(node.left) + self.length(node.right)
        return int(node.value)

    def parameters(self, node: c_ast.FuncDecl) -> list[str]:
        types = [self.of(parameter.type) for parameter in (node.args.params if node.args else [])]
        # Text whose length follows need not end in a zero, which c_char_p looks for.
        for place, kind in enumerate(types):
            if kind == "c_char_p" and types[place + 1 : place + 2] == ["c_size_t"]:
                types[place] = "c_void_p"
        # An array as a parameter is a pointer, and a lone void says that there are none.
        return ["c_void_p" if " * " in kind else kind for kind in types if kind != "None"]

    def function_type(self, node: c_ast.FuncDecl) -> str:
        return f"CFUNCTYPE({', '.join([self.of(node.type), *self.parameters(node)])})"


def annotation(kind: str) -> str:
    """Returns what mypy may know of a field: how ctypes gives its value."""
    if " * " in kind:
        element = kind.split(" * ")[0]
        return "bytes" if element == "c_char" else "Any"
    if kind in ("c_float", "c_double"):
        return "float"
    if kind in ("c_void_p", "c_char_p"):
        return "int | None" if kind == "c_void_p" else "bytes | None"
    return "int" if kind.startswith("c_") else "Any"


def macros(include: pathlib.Path = INCLUDE) -> dict[str, str]:
    """Returns the numbers and strings that the headers define as macros."""
    found = {}
    for line in preprocess("-dM", include=include).splitlines():
        words = line.split(None, 2)
        if len(words) == 3 and words[1].startswith("MINUET_") and re.fullmatch(VALUE, words[2]):
            found[words[1]] = words[2]
    return dict(sorted(found.items()))


def generate() -> str:
    declarations = Declarations()
    declarations.read(preprocess())
    lines = [f"{name} = {value}" for name, value in [*macros().items(), *declarations.constants.items()]]
    known = {name for name, _ in declarations.callbacks}
    waiting = dict(declarations.callbacks)

    def write_callbacks(done: set[str]) -> None:
        for name, node in list(waiting.items()):
            text = declarations.function_type(node)
            if all(struct in done or f"({struct})" not in text for struct, _ in declarations.structs):
                lines.extend(["", f"{name} = {text}"])
                del waiting[name]

    done: set[str] = set()
    for name, struct in declarations.structs:
        write_callbacks(done)
        fields = [(field.name, declarations.of(field.type)) for field in struct.decls]
        for place, (field, kind) in enumerate(fields):
            if kind.startswith("CFUNCTYPE"):  # gets a name, by which callbacks of that type are made
                lines.extend(["", f"{name}_{field} = {kind}"])
                fields[place] = (field, f"{name}_{field}")
                known.add(f"{name}_{field}")
        lines.extend(["", "", f"class {name}(Structure):"])
        lines.extend(f"    {field}: {'Any' if kind in known else annotation(kind)}" for field, kind in fields)
        lines.extend(["    _fields_ = [", *(f'        ("{field}", {kind}),' for field, kind in fields), "    ]"])
        done.add(name)
    write_callbacks(done)
    lines.extend(
        [
            "",
            "",
            "# Maps each function to its result and its parameters.",
            "FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {",
        ]
    )
    for name, node in declarations.functions:
        parameters = declarations.parameters(node)
        comma = "," if len(parameters) == 1 else ""
        lines.append(f'    "{name}": ({declarations.of(node.type)}, ({", ".join(parameters)}{comma})),')
    lines.append("}")
    return PROLOGUE + "\n".join(lines) + "\n"


def main() -> int:
    text = generate()
    if sys.argv[1:] == ["--check"]:
        old = TARGET.read_text() if TARGET.exists() else ""
        difference = list(difflib.unified_diff(old.splitlines(), text.splitlines(), "_abi.py", "headers", lineterm=""))
        if difference:
            print("\n".join([*difference[:40], "minuet/_abi.py differs from the headers: run generate_abi.py"]))
        return 1 if difference else 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
