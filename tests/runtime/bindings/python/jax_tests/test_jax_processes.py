"""What needs a process of its own: four devices of the host, exports, and the examples of the page."""

from __future__ import annotations

import re

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from conftest import PACKAGE, run_python  # noqa: E402

sparse = pytest.importorskip("minuet.jax", exc_type=ImportError)

from jax_problems import cells, normal, same_bits  # noqa: E402

PAGE = (PACKAGE / "minuet/jax/README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
FOUR_DEVICES = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
# glibc then fills new memory with this byte's complement, so that what is not written shows.
POISONED = {"MALLOC_PERTURB_": "85"}


def test_four_devices():
    code = "import sys; sys.path.insert(0, 'HERE'); import sharded; sharded.main()".replace(
        "HERE", __file__.rpartition("/")[0]
    )
    done = run_python(code, environment={**FOUR_DEVICES, **POISONED}, timeout=300)
    assert done.stdout.endswith("\ndone\n"), done.stdout + done.stderr
    print(done.stdout)  # The seed of its inputs.


def test_export_runs_in_a_fresh_process(generator, tmp_path):
    pytest.importorskip("flatbuffers")
    geometry = sparse.Geometry([sparse.Level(64)], {"same": sparse.conv_map(0, 0, 3)})
    points = cells(generator, 64)
    x, weight = normal(generator, 64, 4), normal(generator, 27, 4, 5)

    def step(points, x, weight):
        cloud = sparse.pyramid(geometry, points)

        def loss(weight):
            return (sparse.conv(cloud, "same", x, weight) ** 2).sum()

        return *jax.value_and_grad(loss)(weight), cloud.status

    function = jax.jit(step)
    with pytest.raises(Exception, match="minuet_"):
        jax.export.export(function)(points, x, weight)
    exported = jax.export.export(function, disabled_checks=sparse.export_checks())(points, x, weight)
    (tmp_path / "program").write_bytes(exported.serialize())
    np.savez(tmp_path / "operands", points=points, x=x, weight=weight)
    done = run_python(
        f"""
import jax, minuet.jax, numpy as np
from pathlib import Path
folder = Path({str(tmp_path)!r})
program = jax.export.deserialize(bytearray((folder / "program").read_bytes()))
given = np.load(folder / "operands.npz")
loss, gradient, status = program.call(given["points"], given["x"], given["weight"])
np.savez(folder / "results", loss=loss, gradient=gradient, status=status)
""",
        environment={**POISONED, "MINUET_NO_JIT": "1"},
    )
    assert done.returncode == 0, done.stderr
    results = np.load(tmp_path / "results.npz")
    expected = function(points, x, weight)
    assert same_bits((results["loss"], results["gradient"], results["status"]), expected)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_page(number):
    if "flax" in BLOCKS[number]:
        pytest.importorskip("flax")
    done = run_python(BLOCKS[number], environment={**FOUR_DEVICES, **POISONED}, timeout=300)
    assert done.returncode == 0, done.stderr


def test_page_has_examples():
    assert len(BLOCKS) == 7


def test_every_name_of_the_page_is_there():
    for name in re.findall(r"\bsparse\.([A-Za-z]\w+)", PAGE):
        assert name == "nn" or hasattr(sparse, name), name


def test_an_old_jax_is_refused():
    done = run_python("import jax; jax.__version__ = '0.9.2'\nimport minuet.jax")
    assert "minuet.jax needs jax 0.10 or newer, and this is jax 0.9.2" in done.stderr


def test_a_library_without_custom_calls_is_refused(tmp_path):
    """The library alone, as where there was no jaxlib at its build."""
    import minuet._library

    (tmp_path / "libminuet.so").symlink_to(minuet._library.library._name)
    done = run_python("import minuet.jax", environment={"MINUET_LIBRARY": str(tmp_path / "libminuet.so")})
    assert "libminuet_xla.so does not exist, because no jaxlib was there" in done.stderr


def test_flax_is_asked_for_where_it_is_needed():
    done = run_python(
        "import sys; sys.modules['flax'] = None\nimport minuet.jax as sparse\nprint(sparse.conv.__name__)\nsparse.nn"
    )
    assert done.stdout == "conv\n"
    assert "ImportError: minuet.jax.nn has modules of flax, which cannot be imported: install flax" in done.stderr


def test_names_that_are_not_there():
    with pytest.raises(AttributeError, match=r"minuet\.jax has no attribute 'convolve'"):
        sparse.convolve  # noqa: B018


def test_without_jax_the_package_is_there():
    done = run_python("import sys; sys.modules['jax'] = None\nimport minuet\nimport minuet.jax")
    assert "import of jax halted" in done.stderr
