"""What the tests of the Python package share. Tests that take `device` run on the CPU device, and on a GPU or the
software CUDA device (tests/support/software_cuda) where there is one."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import subprocess
import sys

# Names of packages that this run is to behave without.
for without in filter(None, os.environ.get("MINUET_TEST_WITHOUT", "").split(",")):
    sys.modules[without] = None  # type: ignore[assignment]

import minuet  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[3]
PACKAGE = ROOT / "runtime/bindings/python"
BUILD = pathlib.Path(os.environ.get("MINUET_BUILD") or ROOT / "build/release")
sys.path.insert(0, str(HERE))


def expects(name: str) -> bool:
    """Whether MINUET_EXPECT says that something is here, so that a test without it fails."""
    return name in os.environ.get("MINUET_EXPECT", "").split(",")


def pytest_configure() -> None:
    """Ends the run if a framework that MINUET_EXPECT names is missing. Whole files of tests skip themselves then."""
    for name, part in (("torch", "torch"), ("jax", "check")):
        if expects(name) and importlib.util.find_spec(name) is None:
            raise pytest.UsageError(
                f"MINUET_EXPECT names {name}, which is not installed: run tools/setup --with {part}"
            )


def skip_or_fail(name: str, reason: str) -> None:
    if expects(name):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def context(tmp_path_factory: pytest.TempPathFactory) -> minuet.Context:
    cache = os.environ.get("MINUET_TEST_CACHE") or tmp_path_factory.mktemp("cache")
    return minuet.Context(cache)


@pytest.fixture(scope="session", params=["cpu", "cuda:0"])
def device(request: pytest.FixtureRequest, context: minuet.Context) -> minuet.Device:
    try:
        return minuet.Device(context, request.param)
    except minuet.UnavailableError as error:
        skip_or_fail("gpu" if request.param != "cpu" else "cpu", str(error).split(" (")[0])
        raise


@pytest.fixture(params=["cpu", "cuda"])
def kind(request: pytest.FixtureRequest) -> str:
    """A kind of device of torch."""
    if request.param == "cuda" and not pytest.importorskip("torch").cuda.is_available():
        skip_or_fail("gpu", "torch sees no GPU")
    return str(request.param)


def is_software(device: minuet.Device) -> bool:
    """Whether this is the software CUDA device of the tests."""
    return "software" in device.info.description


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes each skip with its reason to the file MINUET_SKIPS, for tools/lint/skips.py."""
    path = os.environ.get("MINUET_SKIPS")
    is_worker = "PYTEST_XDIST_WORKER" in os.environ  # whose reports come to the process that started it, too
    if path and not is_worker and report.skipped and isinstance(report.longrepr, tuple):
        reason = " ".join(report.longrepr[2].removeprefix("Skipped: ").split())
        with open(path, "a") as file:
            file.write(f"python\t{report.nodeid.split('/')[-1]}\t{reason}\n")


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Does the same for a file that is skipped as a whole."""
    pytest_runtest_logreport(report)


@pytest.fixture
def cpu(context: minuet.Context) -> minuet.Device:
    return minuet.Device(context, "cpu")


def new_generator() -> np.random.Generator:
    """Returns a generator of random inputs, and prints the seed that repeats them."""
    seed = int(os.environ.get("MINUET_TEST_SEED") or int.from_bytes(os.urandom(4), "little"))
    print(f"MINUET_TEST_SEED={seed} repeats the inputs")
    return np.random.default_rng(seed)


@pytest.fixture
def generator() -> np.random.Generator:
    return new_generator()


def run_python(
    code: str, *, environment: dict[str, str] | None = None, timeout: int = 120
) -> subprocess.CompletedProcess[str]:
    """Runs code in a new interpreter that finds the package as this one does."""
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE), str(HERE)]), **(environment or {})}
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        env=settings,
        timeout=timeout,
        text=True,
        capture_output=True,
    )
