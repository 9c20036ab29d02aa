"""Lists the files that the checks read: those that git tracks or would track, which leaves out build folders.

As a program, it prints the C and C++ files, one per line.
"""

import pathlib
import re
import subprocess

# If the tree is a copy without git, these folders at its top level are left out.
NOT_OURS = {"build", "shared", ".cache", ".git"}
MOST_SHOWN = 40
# Headers of released versions stay as they were released.
RELEASED = re.compile(r"tests/runtime/abi/released/[^/]+/include/")
CODE = {".h", ".hpp", ".cc", ".c", ".inc", ".cuh"}


def all_files(root):
    """Returns paths relative to root. If root is not a git work tree, returns all files below it except NOT_OURS."""
    root = pathlib.Path(root)
    git = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True, text=True)
    if git.returncode == 0 and (root / ".git").exists():
        names = sorted(set(git.stdout.split("\0")) - {""})
    else:
        ours = [path for path in root.iterdir() if path.name not in NOT_OURS]
        files = [file for path in ours for file in ([path] if path.is_file() else path.rglob("*"))]
        names = sorted(str(path.relative_to(root)) for path in files if path.is_file())
    return [pathlib.Path(name) for name in names if (root / name).is_file()]


def code_files(root):
    return [path for path in all_files(root) if path.suffix in CODE and not RELEASED.match(path.as_posix())]


def report(check, problems):
    """Prints the problems, one per line, and returns the exit code."""
    for problem in problems[:MOST_SHOWN]:
        print(f"{check}: {problem}")
    if len(problems) > MOST_SHOWN:
        print(f"{check}: and {len(problems) - MOST_SHOWN} more")
    print(f"{check}: " + (f"{len(problems)} found" if problems else "ok"))
    return 1 if problems else 0


if __name__ == "__main__":
    for path in code_files(pathlib.Path(__file__).resolve().parents[2]):
        if path.suffix != ".inc":
            print(path)
