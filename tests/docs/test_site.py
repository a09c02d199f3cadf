"""The built site: no warnings, every link, anchor and picture resolves, nothing from elsewhere."""

import html.parser
import json
import re
import urllib.parse

import pytest

import tfconcrete as tfc

pytestmark = pytest.mark.slow


class Page(html.parser.HTMLParser):
    """The links, the resources that a browser would load, and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.resources, self.anchors = [], [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.anchors.update(values[key] for key in ("id", "name") if values.get(key))
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        if values.get("src"):
            self.resources.append(values["src"])
        if tag == "link" and values.get("href") and values.get("rel") != "canonical":
            self.resources.append(values["href"])


@pytest.fixture(scope="module")
def pages(site):
    paths = [path for path in site.rglob("*.html") if path.name != "404.html"]
    return {path: Page(path.read_text()) for path in paths}


def test_links_anchors_and_pictures_resolve(site, pages):
    broken = []
    for path, page in pages.items():
        for link in [*page.links, *page.resources]:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / urllib.parse.unquote(parts.path))
            target = target.resolve()
            if target.is_dir():
                target /= "index.html"
            anchor = urllib.parse.unquote(parts.fragment)
            if not target.exists():
                broken.append(f"{path.relative_to(site)}: {link}")
            elif anchor and target in pages and anchor not in pages[target].anchors:
                broken.append(f"{path.relative_to(site)}: no anchor for {link}")
    assert not broken, "\n".join(broken[:20])


def test_nothing_is_loaded_from_elsewhere(site, pages):
    for path, page in pages.items():
        for resource in page.resources:
            host = urllib.parse.urlsplit(resource).netloc
            assert not host, f"{path.relative_to(site)}: {resource}"


def test_every_public_name_is_on_its_page(site, pages):
    for room in ("layers", "models", "distributions", "estimators", "export", "callbacks"):
        anchors = pages[site / "api" / f"{room}.html"].anchors
        for name in getattr(tfc, room).__all__:
            assert f"tfconcrete.{room}.{name}" in anchors, f"{room}.{name}"


def test_a_description_without_a_type_has_no_dash(site):
    text = (site / "api" / "layers.html").read_text()
    assert "Tensor of the shape of <code>logits</code>" in text
    assert not re.search(r'field-body">\s*–', text)


def test_search_finds_layers_and_guides(site):
    index = json.loads((site / "search" / "search_index.json").read_text())
    places = {entry["location"] for entry in index["docs"]}
    assert "guides/masks.html" in places
    assert "api/layers.html#tfconcrete.layers.ConcreteSample" in places
    assert not any(place.startswith("source/") for place in places)
