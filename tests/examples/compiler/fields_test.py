"""The table of fields in runtime/abi/COMPILERS.md has just the fields of FusedParams, as the library tells them.

usage: fields_test.py ROOT
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
page = (root / "runtime/abi/COMPILERS.md").read_text()
fields = (root / "codegen/source/params_fields.h").read_text()


def listed(struct: str) -> list[str]:
    begin = fields.index(f"MINUET_BEGIN_FIELDS({struct})")
    return re.findall(r"MINUET_FIELD\((\w+)\)", fields[begin : fields.index("MINUET_END_FIELDS", begin)])


names = listed("FusedParams")
for member, struct in (("shortcut", "FusedShortcut"), ("second", "SecondOutput")):
    names.remove(member)
    names += [f"{member}.{name}" for name in listed(struct)]
table = page[page.index("| field | what it holds |") :]
told = re.findall(r"`([\w.]+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)))
if sorted(told) != sorted(names):
    sys.exit(f"COMPILERS.md and FusedParams differ in these fields: {sorted(set(told) ^ set(names))}")
