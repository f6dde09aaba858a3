# ruff: noqa: E501  (the script that the browser runs)
"""The page as a browser shows it: nothing leaves the machine, nothing runs, everything can be seen in light and in dark."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from reports.evidence import gather
from reports.page import render
from reports.verdict import Verdict
from tests.reports import synthetic, synthetic_race
from tests.reports.hostile import MARK, hostile

pytestmark = pytest.mark.browser

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found:
        pytest.fail("no Chromium on this machine: apt-get install -y chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found[0], args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Report files by the story they tell."""
    written = {}
    for name, make in (
        ("chaos", synthetic.chaos),
        ("unclean", synthetic.unclean),
        ("race", synthetic_race.race),
        ("hostile", hostile),
    ):
        run = make(tmp_path_factory.mktemp(name))
        written[name] = run.folder / "report.html"
        written[name].write_text(render(gather(run.run, run.verdict, run.history)), encoding="utf-8")
    folder = tmp_path_factory.mktemp("no-data")
    verdict = Verdict(run="r", verdict="unknown", status="no-data", reason="the clients never started")
    written["no-data"] = folder / "report.html"
    written["no-data"].write_text(render(gather({}, verdict, folder / "history")), encoding="utf-8")
    return written


@dataclass
class Opened:
    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


def opened(browser: Browser, path: Path, **options: Any) -> Opened:
    page = browser.new_page(**{"viewport": {"width": 1280, "height": 800}, **options})
    seen = Opened(page)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("console", lambda message: seen.complaints.append(message.text))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.on("dialog", lambda dialog: seen.complaints.append(dialog.message))
    page.goto(path.as_uri(), wait_until="load")
    return seen


@pytest.mark.parametrize("story", ["chaos", "unclean", "race", "hostile", "no-data"])
def test_no_request_no_complaint_no_script(story: str, browser: Browser, pages: dict[str, Path]) -> None:
    seen = opened(browser, pages[story])
    assert [url for url in seen.requests if not url.startswith("data:")] == [pages[story].as_uri()]
    assert seen.complaints == []
    assert MARK not in seen.page.title().split(" - ")[0]
    assert seen.page.evaluate("document.scripts.length") == 0
    assert seen.page.evaluate("document.querySelectorAll('[onerror],[onload],main img,main iframe').length") == 0
    seen.page.close()


def test_the_policy_stops_a_script_that_would_get_in(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    """The second fence: were something not escaped after all, the CSP would still hold."""
    leaky = tmp_path / "leaky.html"
    html = pages["unclean"].read_text(encoding="utf-8")
    leaky.write_text(html.replace("<main", f"<script>document.title='{MARK}'</script><main", 1), encoding="utf-8")
    seen = opened(browser, leaky)
    assert seen.page.title() != MARK
    assert any("Content Security Policy" in complaint for complaint in seen.complaints)
    seen.page.close()


@pytest.mark.parametrize(
    ("story", "word"), [("unclean", "INVALID"), ("chaos", "VALID"), ("no-data", "UNKNOWN"), ("hostile", "INVALID")]
)
@pytest.mark.parametrize("width", [1280, 390])
def test_the_verdict_is_on_the_first_screen(
    story: str, word: str, width: int, browser: Browser, pages: dict[str, Path]
) -> None:
    page = opened(browser, pages[story], viewport={"width": width, "height": 800}).page
    box = page.locator("h1 .word").bounding_box()
    assert box is not None
    assert page.locator("h1 .word").inner_text() == word
    assert box["y"] + box["height"] < 300
    page.close()


@pytest.mark.parametrize("story", ["chaos", "unclean", "race", "hostile", "no-data"])
@pytest.mark.parametrize("width", [1280, 390])
def test_only_wide_tables_and_drawings_scroll_sideways(
    story: str, width: int, browser: Browser, pages: dict[str, Path]
) -> None:
    page = opened(browser, pages[story], viewport={"width": width, "height": 800}).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


# Contrast of every text that is shown, by the formula of WCAG 2: against the first opaque background behind it.
CONTRAST = """() => {
  const parse = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => { const f = [r, g, b].map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
    return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length && (c.length < 4 || c[3] === 1)) return c; } return [255, 255, 255]; };
  document.querySelectorAll('details').forEach((d) => { d.open = true; });
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || e.closest('defs, title') || !e.getClientRects().length) continue;
    const svg = e instanceof SVGElement, style = getComputedStyle(e);
    let back = behind(e);
    if (svg && /^in-(bar|fault)$/.test(e.getAttribute('class') || '')) {
      const box = e.getBoundingClientRect();
      const bars = [...e.ownerSVGElement.querySelectorAll('rect.broker, rect.fault')].filter((r) => { const b = r.getBoundingClientRect();
        return b.left <= box.left && b.right >= box.left + 2 && b.top <= box.top + box.height / 2 && b.bottom >= box.top + box.height / 2; });
      if (bars.length) back = parse(getComputedStyle(bars[bars.length - 1]).fill);
    }
    const ink = parse(svg ? style.fill : style.color);
    const [a, b] = [light(ink), light(back)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${e.tagName}.${e.getAttribute('class')} ${e.textContent.trim().slice(0, 40)}`);
  }
  return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("story", ["chaos", "unclean", "no-data"])
def test_every_text_can_be_read(scheme: Any, story: str, browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages[story], color_scheme=scheme).page
    assert page.evaluate(CONTRAST) == []
    page.close()


def test_dark_mode_is_dark(browser: Browser, pages: dict[str, Path]) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        page = opened(browser, pages["unclean"], color_scheme=scheme).page
        brightness[scheme] = float(np.mean(picture(page, "main")))
        page.close()
    assert brightness["light"] > 200
    assert brightness["dark"] < 70


def picture(page: Page, selector: str) -> np.ndarray:
    shot = page.locator(selector).first.screenshot()
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).astype(int)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("drawing", ["svg.timeline", "svg.plot"])
def test_drawings_are_drawn_in_colour(scheme: Any, drawing: str, browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["chaos"], color_scheme=scheme).page
    pixels = picture(page, drawing)
    assert coloured(pixels) > 0.01
    assert blackened(pixels) < (0.1 if scheme == "light" else 0.02)
    page.close()


def coloured(pixels: np.ndarray) -> float:
    """Share of pixels that are clearly not grey."""
    return float((pixels.max(axis=2) - pixels.min(axis=2) > 60).mean())


def blackened(pixels: np.ndarray) -> float:
    """Share of pixels that are pure black, as SVG is when its styles are forbidden."""
    return float((pixels.max(axis=2) < 8).mean())


def test_the_colour_test_notices_a_policy_that_forbids_styles(
    browser: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    """Without `style-src 'unsafe-inline'` the very same plots turn black."""
    html = re.sub(r"style-src &#39;unsafe-inline&#39;; ", "", pages["chaos"].read_text(encoding="utf-8"))
    (tmp_path / "strict.html").write_text(html, encoding="utf-8")
    page = opened(browser, tmp_path / "strict.html").page
    pixels = picture(page, "svg.plot")
    assert coloured(pixels) < 0.01 or blackened(pixels) > 0.1
    page.close()


def test_the_page_reads_without_javascript(browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["unclean"], java_script_enabled=False).page
    assert page.locator("#anomaly-1 .lead").inner_text().startswith("w2 process 204 was told at 15.816 s")
    page.locator("#anomaly-1 summary").click()
    assert page.locator("#anomaly-1 details tbody").first.is_visible()
    page.close()


def test_it_prints_whole(browser: Browser, pages: dict[str, Path]) -> None:
    page = opened(browser, pages["unclean"]).page
    printed = page.pdf(format="A4", print_background=True)
    assert printed.startswith(b"%PDF")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 794, "height": 1123})
    assert not page.locator("nav").is_visible()
    clipped = "[...document.querySelectorAll('figure .scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1).length"
    assert page.evaluate(clipped) == 0
    page.close()
