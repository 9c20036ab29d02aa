"""The examples of the page for users, and that of the top README, run as they stand."""

import importlib.util
import re
import subprocess
import sys

import pytest
from conftest import PACKAGE, ROOT, run_python

BLOCKS = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_page(number):
    done = run_python(BLOCKS[number])
    assert done.returncode == 0, done.stderr


def test_page_has_examples():
    assert len(BLOCKS) == 5


def test_top_readme():
    done = run_python((ROOT / "tests/examples/readme/network.py").read_text())
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"(cpu|cuda:0): 3 rows, the first of 96 features is \S+\n", done.stdout)
    done = subprocess.run(
        [sys.executable, ROOT / "tests/examples/readme_test.py", ROOT], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout


def test_every_name_of_the_page_is_there():
    import minuet

    text = (PACKAGE / "README.md").read_text()
    for owner, name in re.findall(r"\b(Plan|Device|Coordinates|KernelMap|Context|Execution)\.(\w+)", text):
        assert hasattr(getattr(minuet, owner), name), f"{owner}.{name}"
    for name in re.findall(r"\bminuet\.([A-Za-z]\w+)", text):
        assert hasattr(minuet, name) or importlib.util.find_spec(f"minuet.{name}"), name
