"""The source of the site, and a check of its links. build.sh runs it in the root of the repository.

    site.py gather FOLDER   the pages of SUMMARY.md, what they link to, and book.toml, below FOLDER
    site.py check FOLDER    each link in the HTML files below FOLDER leads to a file and a heading
"""

import html.parser
import os
import pathlib
import re
import shutil
import sys
import urllib.parse

SUMMARY = pathlib.PurePosixPath("docs/book/SUMMARY.md")
LINK = re.compile(r"(\[[^][]*)?\]\(([^)\s]+)\)")
BOOK = """\
[book]
title = "Olivine"
language = "en"
src = "src"

[output.html]
no-section-label = true
"""


def inside(page, target):
    """The path in the repository to which `target` in `page` leads; None for what is elsewhere."""
    path = target.split("#")[0]
    if "://" in target or target.startswith("mailto:") or not path:
        return None
    return pathlib.PurePosixPath(os.path.normpath(page.parent / path))


def prose(text):
    """The lines of a page, each with whether it is outside of code blocks."""
    code = False
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        yield line, not (code or fence)
        code ^= fence


def gather(place):
    source = place / "src"
    summary = []
    pages = []
    for line in pathlib.Path(SUMMARY).read_text().split("\n"):
        for link in LINK.finditer(line):
            path = inside(SUMMARY, link[2])
            pages.append(path)
            line = line.replace(link[2], str(in_site(path)))
        summary.append(line)
        if "docs/adr/README.md" in line:
            for record in sorted(pathlib.Path("docs/adr").glob("0*.md")):
                summary.append(f"    - [{title(record)}]({record})")
                pages.append(pathlib.PurePosixPath(record))
    summary.append("# More\n")
    # Pages that only other pages name, and theirs.
    listed = len(pages)
    for page in pages:
        for line, is_prose in prose(pathlib.Path(page).read_text()):
            for link in LINK.finditer(line) if is_prose else ():
                path = inside(page, link[2])
                if path and path.suffix == ".md" and path not in (SUMMARY, *pages):
                    pages.append(path)
    summary += [f"- [{title(page)}]({in_site(page)})" for page in pages[listed:]]
    for page in pages:
        text = "\n".join(
            LINK.sub(lambda link: moved(page, link, source), line) if is_prose else line
            for line, is_prose in prose(pathlib.Path(page).read_text())
        )
        write(source / in_site(page), text)
    write(source / "SUMMARY.md", "\n".join(summary))
    write(place / "book.toml", BOOK)


def title(page):
    return pathlib.Path(page).read_text().split("\n", 1)[0].lstrip("# ")


def in_site(path):
    """Where the site has a file. mdBook makes index.html of README.md, and changes no links."""
    if path == SUMMARY:
        return pathlib.PurePosixPath("index.md")
    if path.name == "README.md":
        return path.with_name("index.md")
    return path if path.suffix else path.with_name(path.name + ".txt")


def moved(page, link, source):
    """`link` as the site has it. Copies what it leads to, unless it is a page."""
    path = inside(page, link[2])
    if path is None:
        return link[0]
    if pathlib.Path(path).is_dir() and link[1]:
        # The site has no page for a folder.
        return link[1][1:]
    if path.suffix != ".md":
        (source / in_site(path)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, source / in_site(path))
    heading = link[2][link[2].find("#") :] if "#" in link[2] else ""
    address = os.path.relpath(in_site(path), in_site(page).parent)
    return f"{link[1] or ''}]({address}{heading})"


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


TARGETS = (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src"))


class Page(html.parser.HTMLParser):
    """Links and anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links = []
        self.anchors = set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.anchors.add(value)
            elif (tag, name) in TARGETS:
                self.links.append(value)


def check(place):
    pages = {path: Page(path) for path in place.rglob("*.html")}
    count = 0
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = path
            if parts.path:
                # The page for addresses that do not exist links from the root.
                base = place if parts.path.startswith("/") else path.parent
                target = pathlib.Path(os.path.normpath(base / parts.path.lstrip("/")))
            if not target.is_file():
                broken.append(f"{path}: {link}: no such file")
            elif parts.fragment and target in pages:
                if urllib.parse.unquote(parts.fragment) not in pages[target].anchors:
                    broken.append(f"{path}: {link}: no such heading")
    if broken:
        sys.exit("\n".join(broken))
    if count < 1000 or len(pages) < 50:
        sys.exit(f"only {count} links on {len(pages)} pages")
    print(f"ok: {count} links on {len(pages)} pages of {place}")


if __name__ == "__main__":
    commands = {"gather": gather, "check": check}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](pathlib.Path(sys.argv[2]))
