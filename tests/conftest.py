"""Shared by all tests: the folder of real data, and a real browser that opens pages."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from truerisk import progress

os.environ.setdefault("SOURCE_DATE_EPOCH", "1795000000")  # certificates of two seconds are compared as whole files
os.environ.setdefault("OMP_NUM_THREADS", "1")  # tiny networks: threads cost more than they bring


@pytest.fixture(autouse=True, scope="session")
def _quiet():
    progress.enable(False)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Where MNIST is; only $TRUERISK_DATA says so."""
    folder = os.environ.get("TRUERISK_DATA")
    if not folder:
        pytest.skip("$TRUERISK_DATA is not set: no MNIST files")
    return Path(folder)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
OPTIONS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
]
CLASHES = """
const clashes = [];
const inside = (x, y, box) => x > box.left + 1 && x < box.right - 1 && y > box.top + 3 && y < box.bottom - 3;
const slanted = (text) => text.getScreenCTM().b;  // such a text is smaller than its box
function points(svg) {  // of points, rules and lines that are drawn
  const found = [];
  for (const mark of svg.querySelectorAll('.role-mark path, .role-mark line')) {
    const kind = mark.closest('.role-mark').classList;
    if (mark.getAttribute('opacity') === '0' || mark.getAttribute('stroke-opacity') === '0') continue;
    const [box, matrix] = [mark.getBoundingClientRect(), mark.getScreenCTM()];
    if (kind.contains('mark-symbol')) found.push([box.left + box.width / 2, box.top + box.height / 2]);
    if (!kind.contains('mark-rule') && !kind.contains('mark-line')) continue;
    for (let at = 0; at <= mark.getTotalLength(); at += 2) {
      const point = mark.getPointAtLength(at).matrixTransform(matrix);
      found.push([point.x, point.y]);
    }
  }
  return found;
}
for (const svg of document.querySelectorAll('.plot svg')) {
  if (!svg.getClientRects().length) continue;
  const frame = svg.getBoundingClientRect(), drawn = points(svg);
  const texts = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim() && !slanted(t))
    .map(t => ({ words: t.textContent, box: t.getBoundingClientRect(), label: t.closest('.role-mark') }));
  texts.forEach(({ words, box, label }, i) => {
    if (box.left < frame.left - 3 || box.right > frame.right + 3) clashes.push(`${words}: cut off`);
    if (label && drawn.some(([x, y]) => inside(x, y, box))) clashes.push(`${words}: a mark is in it`);
    for (const other of texts.slice(i + 1)) {
      const wide = Math.min(box.right, other.box.right) - Math.max(box.left, other.box.left);
      const high = Math.min(box.bottom, other.box.bottom) - Math.max(box.top, other.box.top);
      const halo = words === other.words && label;  // a label is drawn over its own outline
      if (wide > 1 && high > 4 && !halo) clashes.push(`${words}: overlaps ${other.words}`);
    }
  });
}
return [...new Set(clashes)]
"""
PATIENCE = 30  # seconds: for a page that never gets ready, a file that never arrives


class Browser:
    """Headless Chromium, and what the tests do with a page."""

    def __init__(self, driver, downloads: Path) -> None:
        self.driver, self.downloads = driver, downloads
        folder = {"behavior": "allow", "downloadPath": str(downloads)}
        driver.execute_cdp_cmd("Browser.setDownloadBehavior", folder)

    def run(self, script: str, *values):
        return self.driver.execute_script(script, *values)

    def open(self, path: Path, width: int = 1200, scheme: str = "light") -> None:
        """Open a page on paper of this width and colour, and wait until its figures are drawn."""
        self.paper(width, scheme)
        self.driver.get(path.as_uri())
        self.wait(
            lambda: self.run("return !document.getElementById('figures') || document.documentElement.dataset.ready")
        )

    def paper(self, width: int, scheme: str = "light", height: int = 900) -> None:
        """Change the size and the color of the paper of the page that is open."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)

    def wait(self, done):
        """What ``done`` returns as soon as it is true."""
        end = time.monotonic() + PATIENCE
        while not (value := done()):
            assert time.monotonic() < end, "waited in vain"
            time.sleep(0.03)
        return value

    def console(self) -> list:
        return self.driver.get_log("browser")

    def requests(self) -> list[str]:
        return self.run("return performance.getEntriesByType('resource').map(e => e.name)")

    def fits(self) -> bool:
        """Nothing has to be scrolled sideways."""
        return self.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")

    def clashes(self) -> list[str]:
        """Texts of figures that are cut off, that overlap, or that a point, a rule, or a line runs through."""
        return self.run(CLASHES)

    def figures(self, clickable: bool = False) -> list[str]:
        """The names of the figures that are drawn, or only of those that have a legend to click."""
        data = self.run("return JSON.parse(document.getElementById('figures')?.textContent ?? '[]')")
        names = [figure["name"] for figure in data]
        return [name for name in names if not clickable or any(b.is_displayed() for b in self.legend(name))]

    @staticmethod
    def luminance(css: str) -> float:
        """Relative luminance (WCAG 2) of ``rgb(r, g, b)``."""
        parts = [int(p) / 255 for p in css[css.index("(") + 1 : -1].split(",")[:3]]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    def contrast(self, a: str, b: str) -> float:
        dark, light = sorted((self.luminance(a), self.luminance(b)))
        return (light + 0.05) / (dark + 0.05)

    def legend(self, figure: str) -> list:
        """The names in the legend of a figure that can be clicked."""
        from selenium.webdriver.common.by import By

        return self.driver.find_elements(By.CSS_SELECTOR, f"#figure-{figure} .legend button")

    def slide(self, figure: str, key: str) -> str:
        """Press a key on the slider of a figure; return what the slider says then."""
        from selenium.webdriver.common.by import By

        self.driver.find_element(By.CSS_SELECTOR, f"#figure-{figure} .slide input").send_keys(key)
        return self.run(f"return document.querySelector('#figure-{figure} .slide output').textContent")

    def drawn(self, figure: str) -> str:
        """The figure as it is drawn now."""
        return self.run(f"return document.querySelector('#figure-{figure} .plot svg')?.outerHTML")

    def bottom(self, selector: str) -> float:
        """Where an element ends, in pixels from the top of the page."""
        return self.run("return document.querySelector(arguments[0]).getBoundingClientRect().bottom", selector)

    def strengths(self, figure: str) -> list[float]:
        """How opaque the lines, points and bars of a figure are; those that only carry tooltips are left out."""
        marks = ".mark-line path, .role-mark.mark-symbol path, .role-mark.mark-rect path"
        opacities = self.run(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.getAttribute('opacity') ?? 1)",
            ", ".join(f"#figure-{figure} .plot {mark}" for mark in marks.split(", ")),
        )
        return [float(value) for value in opacities if float(value)]

    def choose(self, figure: str, entry: int = 0) -> list[float]:
        """Click a name in the legend; return how opaque the marks are then."""
        before, name = self.strengths(figure), self.legend(figure)[entry]
        self.run("arguments[0].scrollIntoView({block: 'center'})", name)
        name.click()
        self.wait(lambda: self.strengths(figure) != before)
        return self.strengths(figure)

    def download(self, figure: str, kind: str) -> Path:
        """Click the button that saves a figure; return the file."""
        for old in self.downloads.iterdir():
            old.unlink()
        button = f"document.querySelector('#figure-{figure} button[data-file={kind}]')"
        self.run(f"{button}.click()")
        there = self.downloads.iterdir  # the browser may make the file before it writes it
        return self.wait(lambda: next((f for f in there() if f.suffix == f".{kind}" and f.stat().st_size), None))


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """One browser for all tests that open pages."""
    webdriver = pytest.importorskip("selenium.webdriver")
    if not (CHROMIUM and DRIVER):
        pytest.skip("chromium or chromedriver is not installed (Debian: chromium-driver)")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in [*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield Browser(driver, tmp_path_factory.mktemp("downloads"))
    driver.quit()
