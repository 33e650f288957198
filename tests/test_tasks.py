"""The code of the task pages runs as it stands there, and gives what stands below it."""

import warnings

import matplotlib.pyplot as plt
import pytest
import tasks

from hdp_nb import HDP, HDPHMM

PAGES = tasks.pages()


LONG = ("known", "states")  # pages whose fits take half a minute and more


def fits_of_twenty_sweeps(monkeypatch):
    """What they find is not what is stored, but the code of the page can be run."""
    for kind in (HDP, HDPHMM):

        def fit(self, *args, _fit=kind.fit, **options):
            self.n_iter = 20
            return _fit(self, *args, **options)

        monkeypatch.setattr(kind, "fit", fit)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_code_of_a_task(path, tmp_path, monkeypatch, request):
    """Every block prints the words that are stored below it and draws as many figures."""
    monkeypatch.chdir(tmp_path)
    short = path.stem in LONG and not request.config.getoption("--slow")
    if short:
        fits_of_twenty_sweeps(monkeypatch)
    tasks.bring_tables(tmp_path)
    blocks = tasks.blocks(path.read_text(encoding="utf-8"))
    assert blocks
    names = {"__name__": "task"}
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        for number, block in enumerate(blocks, 1):
            where = f"{path.name}, block {number}"
            text, figures = tasks.execute(block.code, where, names, block.kind)
            assert short or tasks.shape(text) == tasks.shape(block.text), where
            assert len(figures) == len(block.pictures), where


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_pictures_of_a_task(path):
    """Each is there, is not white, and says what is to be seen."""
    page = path.read_text(encoding="utf-8")
    for block in tasks.blocks(page):
        for name in block.pictures:
            assert plt.imread(path.parent / name).std() > 0.02
            assert f"![]({name})" not in page


def test_page_with_output(tmp_path):
    """What a block prints and draws is stored below it, whatever stood there."""
    path = tmp_path / "page.md"
    head = "# A page\n\n```python\nimport matplotlib.pyplot as plt\n\nx = 2\n```\n\nWords.\n\n"
    code = "```python\nprint(x, 'of')\nplt.plot([1, 2])\n```\n"
    picture, end = "\n![a line](a.png)\n", "\nThe end.\n"
    path.write_text(head + code + "\n```text\nold\n```\n" + picture + end)
    filled = head + code + "\n```text\n2 of\n```\n" + picture + end
    assert tasks.fill(path) == filled and plt.imread(tmp_path / "a.png").std() > 0.02
    path.write_text(filled)
    assert tasks.fill(path) == filled
    assert tasks.blocks(filled)[1][:3] == (
        "print(x, 'of')\nplt.plot([1, 2])\n",
        "2 of\n",
        ["a.png"],
    )
    path.write_text(filled.replace(picture, ""))
    with pytest.raises(SystemExit, match="page-2.png"):
        tasks.fill(path)


def test_commands_of_a_shell_are_run(tmp_path, monkeypatch):
    """Standard output is stored, and a command that fails ends all."""
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text("```sh\nprintf 'a,b\\n1,2\\n' > t.csv\nhead -1 t.csv\n```\n")
    filled = tasks.fill(page)
    assert filled.endswith("```\n\n```text\na,b\n```\n")
    page.write_text(filled)
    assert [(b.kind, b.text) for b in tasks.blocks(filled)] == [("sh", "a,b\n")]
    page.write_text("```sh\nfalse\necho here\n```\n")
    with pytest.raises(SystemExit):
        tasks.fill(page)


def test_numbers_may_differ_and_words_may_not():
    assert tasks.shape("3 clusters\n[[-1.2 3e-05]]") == tasks.shape("12 clusters\n[[1.25  4.1]]")
    assert tasks.shape("3 clusters") != tasks.shape("3 states")
