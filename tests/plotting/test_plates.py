"""plates: what the picture says is what the text says, and nothing lies on anything else."""

import ast
import subprocess
import sys
from itertools import combinations
from math import hypot

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, Rectangle
from matplotlib.style import context
from notebooks import ROOT, read

from hdp_nb.plotting.plates import draw_plates, symbol
from hdp_nb.utils.style import STYLE

HDP = {
    "grid": """gamma  alpha  .     .      eta
               beta   pi_j   z_ji  x_ji   phi_k""",
    "edges": ["gamma -> beta -> pi_j -> z_ji -> x_ji", "alpha -> pi_j", "eta -> phi_k -> x_ji"],
    "plates": [("n_j", "z_ji x_ji"), ("J", "pi_j z_ji x_ji"), ("infinity", "phi_k")],
    "observed": "x_ji",
    "fixed": "gamma alpha eta",
}


def shown():
    "The models that the notebook draws."
    for cell in read(ROOT / "nbs" / "12_plotting/03_plates.ipynb").cells:
        if cell.cell_type == "code" and '"grid": """' in cell.source:
            for node in ast.parse(cell.source).body:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                    yield node.targets[0].id, ast.literal_eval(node.value)


MODELS = dict(shown())
every = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


def drawn(ax, gid):
    return [artist for artist in ax.get_children() if artist.get_gid() == gid]


def by_name(ax, model):
    names = set(model["grid"].split()) - {".", "..."}
    return {artist.get_gid(): artist for artist in ax.patches if artist.get_gid() in names}


def ends(arrow):
    return arrow._posA_posB


def touches(end, node):
    "How far the end of an arrow is from a node's border."
    if isinstance(node, Circle):
        return abs(hypot(end[0] - node.center[0], end[1] - node.center[1]) - node.radius)
    cx, cy = node.get_x() + node.get_width() / 2, node.get_y() + node.get_height() / 2
    return abs(max(abs(end[0] - cx), abs(end[1] - cy)) - node.get_width() / 2)


def centre(node):
    if isinstance(node, Circle):
        return node.center
    return node.get_x() + node.get_width() / 2, node.get_y() + node.get_height() / 2


# ---------------------------------------------------------------- what is drawn is what is said


def test_the_notebook_draws_the_models_of_the_papers():
    assert [*MODELS] == (
        "dp_measure dp_indicator hdp_measure hdp_indicator finite_b finite_c tree hdp_hmm hnhdp"
    ).split()


def test_nodes_arrows_and_plates():
    ax = draw_plates(HDP)
    nodes = by_name(ax, HDP)
    assert {name for name, node in nodes.items() if isinstance(node, Rectangle)} == {
        "gamma",
        "alpha",
        "eta",
    }
    places = {
        "gamma": (0, 0),
        "alpha": (1, 0),
        "eta": (4, 0),
        "beta": (0, -1),
        "pi_j": (1, -1),
        "z_ji": (2, -1),
        "x_ji": (3, -1),
        "phi_k": (4, -1),
    }
    found = {name: centre(node) for name, node in nodes.items()}
    assert found == {name: pytest.approx(at) for name, at in places.items()}
    shaded = [
        patch
        for patch in ax.patches
        if isinstance(patch, Circle) and patch.get_fill() and patch.get_facecolor()[3] > 0
    ]
    assert [circle.center for circle in shaded] == [(3, -1)]
    assert [text.get_text() for text in drawn(ax, "label")] == [
        r"$\gamma$",
        r"$\alpha$",
        r"$\eta$",
        r"$\beta$",
        r"$\pi_{j}$",
        "$z_{ji}$",
        "$x_{ji}$",
        r"$\phi_{k}$",
    ]
    inside = {}
    for frame, count in zip(drawn(ax, "plate"), drawn(ax, "count"), strict=True):
        box = frame.get_bbox()
        assert box.contains(*count.get_position())
        inside[count.get_text()] = {
            name for name, node in nodes.items() if box.contains(*centre(node))
        }
    assert inside == {
        "$n_{j}$": {"z_ji", "x_ji"},
        "$J$": {"pi_j", "z_ji", "x_ji"},
        r"$\infty$": {"phi_k"},
    }


@every
def test_arrows_are_those_of_the_text_and_end_at_the_borders_of_nodes(model):
    ax = draw_plates(model)
    nodes = by_name(ax, model)
    said = set()
    for chain in model["edges"]:
        links = [link.replace(",", " ").split() for link in chain.split("->")]
        said |= {(a, b) for tails, heads in zip(links, links[1:]) for a in tails for b in heads}
    arrows = drawn(ax, "edge")
    assert len(arrows) == len(said) and all(isinstance(arrow, FancyArrowPatch) for arrow in arrows)
    found = set()
    for arrow in arrows:
        tail, head = (
            [name for name, node in nodes.items() if touches(end, node) < 1e-9]
            for end in ends(arrow)
        )
        assert len(tail) <= 1 and len(head) <= 1 and (tail or head)  # or the dots
        found.add((*(tail or ["..."]), *(head or ["..."])))
    assert found == said


# ---------------------------------------------------------------- nothing lies on anything else


def pixels(ax):
    "The picture's renderer, for extents in pixels."
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    return canvas.get_renderer()


def apart(a, b):
    return a.x1 <= b.x0 or b.x1 <= a.x0 or a.y1 <= b.y0 or b.y1 <= a.y0


def along(ax, arrow, n=200):
    (ax0, ay0), (bx, by) = ends(arrow)
    t = np.linspace(0, 1, n)[:, None]
    return ax.transData.transform((1 - t) * [ax0, ay0] + t * [bx, by])


@every
def test_labels_fit_their_nodes(model):
    with context(STYLE):
        ax = draw_plates(model)
    renderer, nodes = pixels(ax), by_name(ax, model)
    for text in drawn(ax, "label"):
        box = text.get_window_extent(renderer)
        near = [node for node in nodes.values() if np.allclose(centre(node), text.get_position())]
        for node in near:
            border = node.get_window_extent(renderer)
            corner = hypot(box.width, box.height) / 2
            limit = border.width / 2 * (2**0.5 if isinstance(node, Rectangle) else 1)
            assert corner < limit, text.get_text()
        assert near or text.get_text() == r"$\cdots$"


@every
def test_no_count_lies_on_an_arrow_a_node_a_frame_or_another_count(model):
    with context(STYLE):
        ax = draw_plates(model)
    renderer = pixels(ax)
    counts = [text.get_window_extent(renderer) for text in drawn(ax, "count")]
    nodes = [node.get_window_extent(renderer) for node in by_name(ax, model).values()]
    frames = [frame.get_window_extent(renderer) for frame in drawn(ax, "plate")]
    assert all(apart(a, b) for a, b in combinations(counts, 2))
    for count in counts:
        assert all(apart(count, node) for node in nodes)
        for frame in frames:  # wholly in or wholly out
            inside = (
                frame.x0 < count.x0
                and count.x1 < frame.x1
                and frame.y0 < count.y0
                and count.y1 < frame.y1
            )
            assert inside or apart(count, frame)
        assert any(
            frame.x0 < count.x0 < frame.x1 and frame.y0 < count.y0 < frame.y1 for frame in frames
        )
        for arrow in drawn(ax, "edge"):
            assert not any(count.contains(*point) for point in along(ax, arrow))


@every
def test_nodes_are_inside_their_frames_and_everything_inside_the_page(model):
    ax = draw_plates(model)
    boxes = [frame.get_bbox() for frame in drawn(ax, "plate")]
    for name, node in by_name(ax, model).items():
        of = sum(name in names.split() for _, names in model["plates"])
        x, y = centre(node)
        around = [
            box
            for box in boxes
            if box.x0 < x - 0.24 and x + 0.24 < box.x1 and box.y0 < y - 0.24 and y + 0.24 < box.y1
        ]
        apart_from = [
            box
            for box in boxes
            if x + 0.24 < box.x0 or box.x1 < x - 0.24 or y + 0.24 < box.y0 or box.y1 < y - 0.24
        ]
        assert len(around) == of and len(around) + len(apart_from) == len(boxes)
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    assert all(
        left < box.x0 and box.x1 < right and bottom < box.y0 and box.y1 < top for box in boxes
    )


def test_a_count_moves_out_of_the_way_of_arrows():
    below = {"grid": "a b\nc d", "edges": ["a -> c"], "plates": [("n", "a")]}
    corners = []
    for edges in (["a -> c"], ["a -> d"], ["a -> d", "a -> c"]):
        ax = draw_plates({**below, "edges": edges})
        corners.append(drawn(ax, "count")[0].get_position())
    assert corners[0][0] > 0 > corners[0][1]  # lower right
    assert corners[1][0] < 0 > corners[1][1]  # lower left


# ---------------------------------------------------------------- figures


def test_a_figure_of_its_own_or_an_axes_that_is_given():
    ax = draw_plates(HDP)
    assert type(ax.figure) is Figure and ax.figure._repr_png_().startswith(b"\x89PNG")
    own = Figure().add_subplot()
    assert draw_plates(HDP, own) is own and own.patches


def test_takes_the_colour_of_the_style_in_force():
    with context("dark_background"):
        ax = draw_plates(HDP)
        assert ax.figure.get_facecolor() == (0, 0, 0, 1)
    assert {text.get_color() for text in ax.texts} == {"white"}
    assert {arrow.get_edgecolor() for arrow in drawn(ax, "edge")} == {(1, 1, 1, 1)}


def test_changes_no_setting():
    before = dict(matplotlib.rcParams)
    draw_plates(HDP)
    assert dict(matplotlib.rcParams) == before


def test_imports_matplotlib_only_when_drawing(tmp_path):
    code = """
import sys
import hdp_nb.plotting.plates, hdp_nb.plotting.plots
assert not any(name.startswith("matplotlib") for name in sys.modules)
hdp_nb.plotting.plates.draw_plates({"grid": "a b", "edges": ["a -> b"]}).figure.savefig(sys.argv[1])
assert "matplotlib.pyplot" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.png")], capture_output=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr.decode()


def test_the_smallest_models():
    for model in (
        {"grid": "x"},
        {"grid": ["x y"]},
        {"grid": "x .\n. y", "edges": "x -> y"},
        {"grid": "x", "plates": [(3, "x")]},
        {"grid": "x", "labels": {"x": "data"}},
    ):
        draw_plates(model).figure.draw_without_rendering()
    assert [t.get_text() for t in draw_plates({"grid": "x", "plates": [(3, "x")]}).texts] == [
        "$3$",
        "$x$",
    ]


@pytest.mark.parametrize(
    "name, formula",
    [
        ("pi_j", r"$\pi_{j}$"),
        ("x", "$x$"),
        ("F'_j", "$F'_{j}$"),
        ("beta'", r"$\beta'$"),
        ("infinity", r"$\infty$"),
        ("z_t-1", "$z_{t-1}$"),
        ("...", r"$\cdots$"),
        ("$a$", "$a$"),
        ("z_s(j)", "$z_{s(j)}$"),
        ("pixel", "$pixel$"),
    ],
)
def test_symbols(name, formula):
    assert symbol(name) == formula


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "model, message",
    [
        (None, "^model: takes a dict with 'grid' .* got None"),
        ({"edges": []}, "^model: takes a dict with 'grid'"),
        ({"grid": "a", "nodes": "a"}, "^model: takes .* got .*nodes"),
        ({"grid": 3}, "^grid: takes a string, or a list of strings, got 3"),
        ({"grid": [["a", "b"]]}, "^grid: takes a string"),
        ({"grid": ""}, "^grid: takes one name or more"),
        ({"grid": ". ."}, "^grid: takes one name or more"),
        ({"grid": "a b\nc"}, r"^grid: takes rows of one length, got rows of \[1, 2\]"),
        ({"grid": "a b\nb ."}, "^grid: takes every name once, got 'b' twice"),
        ({"grid": "a b", "edges": ["a > b"]}, "^edges: takes chains of names.* got 'a > b'"),
        ({"grid": "a b", "edges": [3]}, "^edges: takes chains of names.* got 3"),
        (
            {"grid": "a b", "edges": ["a -> c"]},
            r"^edges: takes names of the grid \(a, b\), got 'c'",
        ),
        ({"grid": "a b", "edges": ["a ->"]}, "^edges: takes names of the grid .* got ''"),
        ({"grid": "a b", "edges": ["a -> b", "b -> a"]}, "^edges: must not run in a circle, got"),
        ({"grid": "a b", "edges": ["a -> a"]}, "^edges: must not run in a circle, got a -> a"),
        (
            {"grid": "a b c", "edges": ["a -> c"]},
            "^edges: must not run through .* a -> c through b",
        ),
        ({"grid": "a b", "observed": "c"}, "^observed: takes names of the grid .* got 'c'"),
        (
            {"grid": "a b", "observed": "a", "fixed": "a"},
            "^fixed: takes names that are not observed",
        ),
        ({"grid": "a ...", "observed": "..."}, "^observed: takes names that are not dots"),
        ({"grid": "a b", "labels": {"c": "$c$"}}, "^labels: takes names of the grid .* got 'c'"),
        ({"grid": "a b", "labels": "a"}, "^labels: takes a dict"),
        ({"grid": "a b", "plates": {"n": "a"}}, "^plates: takes pairs .* got 'n'"),
        ({"grid": "a b", "plates": [3]}, "^plates: takes pairs .* got 3"),
        ({"grid": "a b", "plates": [("n", "c")]}, "^plates: takes names of the grid .* got 'c'"),
        ({"grid": "a b", "plates": [("n", "")]}, "^plates: takes plates with one name or more"),
        ({"grid": "a b c", "plates": [("n", "a c")]}, "^plates: the frame of a, c must not .* 'b'"),
    ],
)
def test_what_cannot_be_drawn_is_refused(model, message):
    with pytest.raises(ValueError, match=message):
        draw_plates(model)
