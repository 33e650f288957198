"""What all tests share: the option --slow, draws of hypothesis that repeat, where tools/ is, and a browser."""
import os
import shutil
import sys
import time
from pathlib import Path

import hypothesis
import pytest

os.environ.setdefault("MPLBACKEND", "Agg")
# Half of all the work would be compiling the same kernels in every process again.
KERNELS = Path(os.environ.setdefault("HDP_NB_CACHE", str(Path(__file__).parent.parent / ".numba_cache")))
sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

# No deadline: the first example pays for numba's compiling.  In CI always the same examples.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure(config):
    "Kernels of versions of long ago go."
    if not hasattr(config, "workerinput") and KERNELS.is_dir():
        for version in KERNELS.iterdir():
            if time.time() - version.stat().st_mtime > 86_400:
                shutil.rmtree(version, ignore_errors=True)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))
    for item in items:
        # Tests of one file share what they compile, or their browser, so they share a worker.  Notebooks share nothing.
        if item.path.stem != "test_notebooks":
            item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import Error, sync_playwright

    found = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome", "chrome")]
    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(
                executable_path=next(filter(None, found), None),
                args=["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"])
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip("needs Chromium (apt install chromium, or .venv/bin/playwright install chromium): "
                        + str(error).splitlines()[0])
        yield chromium
        chromium.close()
