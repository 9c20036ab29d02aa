"""The README's C, C++ and Python blocks are the programs in tests/examples/readme, to the letter.

usage: readme_test.py ROOT
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
blocks = re.findall(r"```(?:c|cpp|python)\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
examples = {path.name: path.read_text() for path in (root / "tests/examples/readme").iterdir()}
missing = [name for name, text in examples.items() if text not in blocks]
strange = [block.splitlines()[0] for block in blocks if block not in examples.values()]
for name in missing:
    print(f"README.md does not show tests/examples/readme/{name} as it is")
for line in strange:
    print(f"README.md has a block that is no program of tests/examples/readme: {line}")
sys.exit(1 if missing or strange or not examples else 0)
