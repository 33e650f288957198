"""What all tests share: the options --slow and --modules, draws of hypothesis that repeat, where
tools/ is, and a browser.
"""

import contextlib
import gc
import os
import re
import shutil
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import hypothesis
import pytest

# Looking for garbage in all that thousands of tests and a compiler keep takes a tenth of the time.
gc.set_threshold(100_000, 50, 100)
os.environ.setdefault("MPLBACKEND", "Agg")
# Half of all the work would be compiling the same kernels in every process again.
KERNELS = Path(__file__).parent.parent / ".numba_cache"
os.environ.setdefault("HDP_NB_CACHE", str(KERNELS))
sys.path.insert(0, str(Path(__file__).parent.parent / "tools"))

# No deadline: the first example pays for numba's compiling.  In CI always the same examples.
hypothesis.settings.register_profile("local", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def remove_old_kernels(cache):
    """Remove compiled kernels that were neither written nor read for two days, and folders of them
    in which nothing is left.

    A system may note only once a day that a file is read.
    """
    begun, marker = time.time() - 2 * 86_400, "hdp_nb-kernels.txt"
    for folder in cache.iterdir():
        ours = re.fullmatch("kernels-[0-9a-f]{16}", folder.name) and not folder.is_symlink()
        if not ours or not (folder / marker).is_file():
            continue
        inside, old = {*os.listdir(folder)}, folder.stat().st_mtime < begun
        if inside == {marker} and old:
            shutil.rmtree(folder)
            continue
        for name in inside:
            found = (folder / name).lstat()
            if name.endswith((".nbc", ".tmp")) and max(found.st_mtime, found.st_atime) < begun:
                (folder / name).unlink()


def pytest_configure(config):
    """Kernels of earlier texts go, but never from a cache that the user has named."""
    if config.getoption("--slow"):
        os.environ.setdefault("HDP_NB_FUZZ", "10000")  # read when tests/test_fuzz.py is imported
        os.environ.setdefault("HDP_NB_EFFORT", "1")  # and this by tests/tiers.py
    if not hasattr(config, "workerinput") and KERNELS.is_dir():
        with contextlib.suppress(OSError):  # another pytest may be removing them, too
            remove_old_kernels(KERNELS)


def pytest_addoption(parser):
    parser.addoption(
        "--slow", action="store_true", help="run the tests marked slow and long cells, too"
    )
    parser.addoption(
        "--modules",
        action="store_true",
        help="leave out what needs a developer's tools: form, notebooks, tools, site",
    )


def pytest_ignore_collect(collection_path, config):
    of_repository = ("test_form.py", "test_notebooks.py", "test_site.py", "test_tools.py")
    if config.getoption("--modules") and collection_path.name in of_repository:
        return True


# What runs side by side at the beginning has no kernels in common: the workers would wait for each
# other to compile them. So pages, topics and states begin, the first two suites of topics one after
# the other; then come other states, and what compiles little. Notebooks, which are many, fill what
# is left at the end.
FIRST = ["site", "contract_topics", "contract_samplers", "state_moves", "form", "estimators"]
FIRST += ["hmm", "package", "dp", "dpmixture", "likelihood", "contract_likelihoods", "hmm_scores"]
FIRST = [f"test_{name}" for name in FIRST]
ONE_GROUP = {"test_contract_samplers": "test_contract_topics"}


def turn(item):
    stem = item.path.stem
    return FIRST.index(stem) if stem in FIRST else len(FIRST) + (stem == "test_notebooks")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config, items):
    items.sort(key=turn)
    if not config.getoption("--slow"):
        for item in items:
            if "slow" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="slow: run with --slow"))
    for item in items if config.pluginmanager.hasplugin("xdist") else ():
        # Tests of one file share what they load, or their browser, so they share a worker.
        # Notebooks share nothing but what is made from all of them.
        stem = item.path.stem
        if stem != "test_notebooks" or "made_anew" in item.fixturenames:
            item.add_marker(pytest.mark.xdist_group(ONE_GROUP.get(stem, stem)))


def says_what_would_run_it(reason):
    "Whether the reason of a skip names an option, a module, or what a machine would need."
    known = ("slow: run with --slow", "needs ", "could not import ", "SCIPY_ARRAY_API is not set")
    return reason.startswith(known)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    "A test that is skipped for no such reason fails."
    report = (yield).get_result()
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if not says_what_would_run_it(reason):
            report.outcome = "failed"
            report.longrepr = (
                f"The reason of a skip says what the test needs to run, got {reason!r}"
            )


def pytest_collection_finish(session):
    gc.freeze()


@pytest.fixture(autouse=True)
def close_figures():
    "Pyplot keeps every figure of a test until it is told to close it."
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def pictures():
    """For tests of what is drawn, or that it is the same: other runs need that there is a file."""


@pytest.fixture
def blank(request, monkeypatch):
    """Pictures are nine tenths of the time of a short run of the command line."""
    if "pictures" in request.fixturenames:
        return
    from matplotlib.figure import Figure

    from hdp_nb.plotting import components, plots

    for module in (plots, components):
        for name in module.__all__:
            if name.startswith("plot_"):
                monkeypatch.setattr(module, name, lambda *_, **__: Figure((1, 1)))


@pytest.fixture(scope="module")
def browser():
    pytest.importorskip("playwright")  # one of a developer's tools, see --modules
    from playwright.sync_api import Error, sync_playwright

    found = [
        shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome", "chrome")
    ]
    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(
                executable_path=next(filter(None, found), None),
                args=[
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-quic",
                    "--disable-background-networking",
                ],
            )
        except Error as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(
                "needs Chromium (apt install chromium, or .venv/bin/playwright install chromium): "
                + str(error).splitlines()[0]
            )
        yield chromium
        chromium.close()


@pytest.fixture
def like_s3(monkeypatch):
    "The file system of a store like S3 on this machine, with a bucket `texts`."
    server = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    boto = pytest.importorskip("botocore.session")
    running = server.ThreadedMotoServer(port=0)
    running.start()
    url = "http://{}:{}".format(*running.get_host_and_port())
    urlopen(Request(f"{url}/moto-api/reset", method="POST")).close()  # what another test has left
    for name, value in [
        ("AWS_ENDPOINT_URL", url),
        ("AWS_ACCESS_KEY_ID", "some"),
        ("AWS_SECRET_ACCESS_KEY", "thing"),
        ("AWS_DEFAULT_REGION", "us-east-1"),
    ]:
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    boto.get_session().create_client("s3").create_bucket(Bucket="texts")
    yield s3fs.S3FileSystem
    running.stop()
