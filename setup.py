"""Build script: everything that describes the package is read from settings.ini."""

from configparser import ConfigParser
from pathlib import Path

from setuptools import setup

here = Path(__file__).parent
config = ConfigParser(delimiters=["="])
config.read(here / "settings.ini", encoding="utf-8")
cfg = config["DEFAULT"]
extras = {
    name.removesuffix("_requirements"): cfg[name].split()
    for name in cfg
    if name.endswith("_requirements")
}
readme = here / "README.md"

setup(
    name=cfg["lib_name"],
    version=cfg["version"],
    description=cfg["description"],
    long_description=readme.read_text(encoding="utf-8") if readme.exists() else "",
    long_description_content_type="text/markdown",
    author=cfg["author"],
    url=cfg["git_url"],
    project_urls={"Documentation": cfg["doc_url"]},
    license=cfg["license"],
    keywords=cfg["keywords"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    python_requires=f">={cfg['min_python']}",
    install_requires=cfg["requirements"].split(),
    extras_require=extras,
    packages=["hdp_nb", "hdp_nb.data"],
    # data/ stands at the top of the repository and travels inside the package.
    package_dir={"hdp_nb": "hdp_nb", "hdp_nb.data": "data"},
    # py.typed tells type checkers that the annotations are meant for them.
    package_data={"hdp_nb": ["py.typed"], "hdp_nb.data": ["*.npz", "*.md"]},
    entry_points={
        "console_scripts": ["hdp_nb = hdp_nb.cli:main"],
        "nbdev": ["hdp_nb = hdp_nb._modidx:d"],
    },
    zip_safe=False,
)
