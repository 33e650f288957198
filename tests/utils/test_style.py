"""style: one set of sizes and colours, in force where it is asked for and nowhere else."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import matplotlib.figure
import matplotlib.pyplot as plt
import pytest
from matplotlib import rcParams
from matplotlib.colors import to_hex
from matplotlib.style import context

from hdp_nb.plotting.plots import plot_trace
from hdp_nb.utils.style import COLORS, STYLE, TEXT_SIZE, new_figure, tidy, use_style


def test_settings_are_matplotlibs_and_take_effect():
    assert {*STYLE} <= {*rcParams}
    with matplotlib.rc_context():
        use_style()
        assert [c["color"] for c in rcParams["axes.prop_cycle"]] == [*COLORS]
        assert all(
            rcParams[name] == value or name == "axes.prop_cycle" or tuple(rcParams[name]) == value
            for name, value in STYLE.items()
        )
        fig = matplotlib.figure.Figure()
        (line,) = fig.subplots().plot([1, 2])
        assert line.get_color() == COLORS[0] and to_hex(fig.get_facecolor()) == "#ffffff"
        fig.draw_without_rendering()
    with context(STYLE):
        assert rcParams["font.size"] == TEXT_SIZE
    assert rcParams["font.size"] != TEXT_SIZE


def test_nothing_changes_unless_it_is_asked_for():
    before = dict(rcParams)
    fig = new_figure(3, 2)
    tidy(fig.subplots())
    plot_trace({"n_topics": [1, 2, 3]})._repr_png_()
    assert dict(rcParams) == before


def test_new_figure_has_its_size_and_follows_the_style_in_force():
    fig = new_figure(3, 2)
    assert fig.get_size_inches().tolist() == [3, 2] and fig.dpi == STYLE["figure.dpi"]
    assert fig._repr_png_().startswith(b"\x89PNG")
    with context("dark_background"):
        assert to_hex(new_figure(3, 2).get_facecolor()) == "#000000"


SCRIPT = """
import sys
from hdp_nb.plotting.plots import plot_trace
before = plot_trace({"n_topics": [1, 2, 3]})
assert "matplotlib.pyplot" not in sys.modules
import matplotlib.pyplot as plt
assert not plt.get_fignums()
figure = plot_trace({"n_topics": [1, 2, 3]})
assert plt.gcf() is figure
plt.savefig(sys.argv[1])
figure.savefig(sys.argv[2])
plt.close()
assert not plt.get_fignums()
"""


def test_pyplot_of_a_script_saves_the_figure(tmp_path):
    """`plt.savefig` writes what was drawn; before pyplot is imported nothing of it is touched."""
    files = [str(tmp_path / name) for name in ("a.png", "b.png")]
    subprocess.run([sys.executable, "-c", SCRIPT, *files], check=True)
    a, b = (plt.imread(file) for file in files)
    assert a.shape == b.shape and (a == b).all() and a.std() > 0.01


def test_threads_do_not_touch_pyplot():
    with ThreadPoolExecutor(1) as pool:
        fig = pool.submit(new_figure, 3, 2).result()
    assert not any(plt.figure(number) is fig for number in plt.get_fignums())


def test_tidy_keeps_the_sides_that_are_named():
    ax = new_figure(3, 2).subplots()
    tidy(ax, keep=["left"])
    assert [side for side, spine in ax.spines.items() if spine.get_visible()] == ["left"]


@pytest.mark.parametrize("module", ["utils.style", "plotting.plates", "plotting.plots"])
def test_importing_does_not_import_matplotlib(module):
    code = f"import sys, hdp_nb.{module}; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
