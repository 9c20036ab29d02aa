"""What clang-tidy is to read: our C++ of a build, in the unity files that its CMake wrote.

usage: tidy_files.py BUILD_FOLDER
"""

import json
import pathlib
import sys

import sources


def tidy_files(build, root):
    """The files of compile_commands.json; fails where one of our own sources is in none of them."""
    compiled = [pathlib.Path(entry["file"]) for entry in json.loads((build / "compile_commands.json").read_text())]
    compiled = sorted({path for path in compiled if path.suffix != ".c"})
    reached = {str(path) for path in compiled}
    for path in compiled:
        if "Unity" in path.parts:
            reached |= {line.split('"')[1] for line in path.read_text().splitlines() if line.startswith("#include")}
    ours = [path for path in sources.code_files(root) if path.parts[0] in {"codegen", "runtime", "tools"}]
    for path in ours:
        if path.suffix == ".cc" and str(root / path) not in reached:
            sys.exit(f"{path}: in no unity file of {build}, so clang-tidy would not read it")
    return compiled


if __name__ == "__main__":
    for file in tidy_files(pathlib.Path(sys.argv[1]), pathlib.Path(__file__).resolve().parents[2]):
        print(file)
