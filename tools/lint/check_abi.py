#!/usr/bin/env python3
"""Checks that the public headers keep what released headers declared, so that an old program runs with a new library.

usage: check_abi.py              compares include/minuet with each folder of tests/runtime/abi/released
       check_abi.py --snapshot   copies the headers of include/minuet there, as those of the version that they name

Nothing that a released header declares may be removed or moved: functions, constants, types and fields keep their names,
types and places, and an _INIT macro keeps its values. A struct may grow at its end if it begins with struct_size, or if
the options beside it have the size of the caller's element (ELEMENTS). A field called `reserved` may get a name.
It needs pycparser, which `tools/setup --with check` installs in build/python, and a C compiler.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASED = pathlib.Path("tests/runtime/abi/released")
BYTES = {"int8_t": 1, "uint8_t": 1, "char": 1, "int32_t": 4, "uint32_t": 4, "int": 4, "float": 4, "int64_t": 8,
         "uint64_t": 8, "size_t": 8, "double": 8}
# Structs without struct_size that may grow, with the field that has the size of the caller's.
ELEMENTS = {"minuet_pyramid_level": ("minuet_pyramid_options", "level_bytes"),
            "minuet_pyramid_map": ("minuet_pyramid_options", "map_bytes"),
            "minuet_pointwise_step": ("minuet_pointwise_options", "step_bytes")}


class Abi:
    """Describes what the headers of one folder declare, for the 64-bit machines that Minuet runs on."""

    def __init__(self, include: pathlib.Path) -> None:
        sys.path.insert(0, str(ROOT / "runtime/bindings/python"))
        import generate_abi
        from pycparser import c_ast, c_generator

        self.ast = c_ast
        self.print = c_generator.CGenerator().visit
        self.declared = generate_abi.Declarations()
        self.declared.read(generate_abi.preprocess(include=include))
        self.constants = {**self.declared.constants,
                          **{name: value for name, value in generate_abi.macros(include).items()
                             if not name.startswith("MINUET_VERSION")}}
        self.functions = {name: self.type_of(node) for name, node in self.declared.functions}
        self.types = {name: self.type_of(node) for name, node in self.declared.typedefs.items() if name not in BYTES}
        self.structs = {name: self.layout(node) for name, node in self.declared.structs}
        text = generate_abi.preprocess("-dM", include=include)
        self.initial = {name: [one.strip() for one in re.findall(r"[^,{}\s][^,{}]*", value)]
                        for name, value in re.findall(r"^#define (MINUET_\w+_INIT) (.*)$", text, re.MULTILINE)}
        self.version = {part: re.search(rf'^#define MINUET_VERSION_{part} "?([^"\s]*)', text, re.MULTILINE)[1]
                        for part in ("MAJOR", "MINOR", "PATCH", "SUFFIX")}

    def type_of(self, node) -> str:
        """Prints a type without the names of parameters, and without the fields of a struct or an enum."""
        if isinstance(node, self.ast.FuncDecl):
            parameters = [self.type_of(parameter.type) for parameter in (node.args.params if node.args else [])]
            return f"{self.type_of(node.type)}({', '.join(parameters)})"
        if isinstance(node, self.ast.PtrDecl):
            return f"{self.type_of(node.type)}*"
        if isinstance(node, self.ast.ArrayDecl):
            return f"{self.type_of(node.type)}[{self.declared.length(node.dim)}]"
        inner = node.type
        if isinstance(inner, (self.ast.Struct, self.ast.Enum)):
            return f"{type(inner).__name__.lower()} {inner.name}"
        return " ".join([*node.quals, *inner.names])

    def size_and_alignment(self, node) -> tuple[int, int]:
        if isinstance(node, self.ast.PtrDecl):
            return 8, 8
        if isinstance(node, self.ast.ArrayDecl):
            size, alignment = self.size_and_alignment(node.type)
            return size * self.declared.length(node.dim), alignment
        if isinstance(node.type, self.ast.Enum):
            return 4, 4
        if isinstance(node.type, self.ast.Struct):
            fields = [self.size_and_alignment(field.type) for field in node.type.decls]
            alignment = max(own for _, own in fields)
            return self.end(fields, alignment), alignment
        name = node.type.names[-1]
        return (BYTES[name], BYTES[name]) if name in BYTES else self.size_and_alignment(self.declared.typedefs[name])

    @staticmethod
    def end(fields, alignment: int) -> int:
        end = 0
        for size, own in [*fields, (0, alignment)]:
            end = (end + own - 1) // own * own + size
        return end

    def layout(self, node) -> tuple[int, list[tuple[str, int, str]]]:
        """Returns the size of a struct, and the name, the offset and the type of each field."""
        fields, measured = [], []
        for field in node.decls:
            size, own = self.size_and_alignment(field.type)
            measured.append((size, own))
            fields.append((field.name, self.end(measured, 1) - size, self.type_of(field.type)))
        return self.end(measured, max(own for _, own in measured)), fields


def compare_struct(name: str, old, new: Abi) -> list[str]:
    (old_size, old_fields), (size, fields) = old, new.structs[name]
    problems = []
    for number, (field, offset, kind) in enumerate(old_fields):
        now = fields[number] if number < len(fields) else ("nothing", -1, "nothing")
        if field == "reserved" and now[1:] == (offset, kind):
            continue
        if now != (field, offset, kind):
            problems.append(f"{name}: at {offset} there was `{kind} {field}`, and now `{now[2]} {now[0]}` at {now[1]}")
    options, stride = ELEMENTS.get(name, ("", ""))
    has_size = fields[0][0] == "struct_size" or (
        options in new.structs and stride in (field for field, _, _ in new.structs[options][1]))
    if size < old_size:
        problems.append(f"{name} had {old_size} bytes, and has only {size}")
    elif size > old_size and not has_size:
        problems.append(f"{name} has neither struct_size nor a row in ELEMENTS, so it may not grow from {old_size} to "
                        f"{size} bytes")
    return problems


def compare(old: Abi, new: Abi) -> list[str]:
    """Returns what a program for the old headers cannot live with in the new ones."""
    problems = []
    for what in ("functions", "types", "constants"):
        before, now = getattr(old, what), getattr(new, what)
        for name, value in before.items():
            if name not in now:
                problems.append(f"{name} is gone; it was {value}")
            elif now[name] != value:
                problems.append(f"{name} was {value}, and is {now[name]}")
    for name, layout in old.structs.items():
        if name not in new.structs:
            problems.append(f"the fields of {name} are gone")
        else:
            problems += compare_struct(name, layout, new)
    for name, values in old.initial.items():
        if new.initial.get(name, [])[:len(values)] != values:
            problems.append(f"{name} no longer begins with its {len(values)} values of then")
    return problems


def check(root: pathlib.Path) -> list[str]:
    folders = sorted((root / RELEASED).glob("*/include"))
    if not folders:
        return [f"{RELEASED} has no headers of a released version"]
    new = Abi(root / "include")
    return [f"{folder.parent.name}: {problem}" for folder in folders for problem in compare(Abi(folder), new)]


def snapshot(root: pathlib.Path) -> list[str]:
    """Copies today's headers. Those of a release, whose version has no suffix, are never replaced."""
    abi = Abi(root / "include")
    name = ".".join(abi.version[part] for part in ("MAJOR", "MINOR", "PATCH"))
    target = root / RELEASED / name / "include"
    if target.exists() and not Abi(target).version["SUFFIX"]:
        return [f"{target.relative_to(root)} has the headers of a release, which stay as they are"]
    shutil.rmtree(target, ignore_errors=True)
    (target / "minuet").mkdir(parents=True)
    for header in (root / "include/minuet").glob("*.h"):
        shutil.copy(header, target / "minuet")
    print(f"check_abi.py: {target.relative_to(root)} has the headers of {name}{abi.version['SUFFIX']}")
    return []


def main() -> int:
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    import sources

    if sys.argv[1:] not in ([], ["--snapshot"]):
        print(__doc__, file=sys.stderr)
        return 2
    return sources.report("check_abi.py", (snapshot if sys.argv[1:] else check)(ROOT))


if __name__ == "__main__":
    sys.exit(main())
