"""The page in a real browser: fits a phone and a screen, in light and dark, and fetches nothing."""

import shutil

import pytest

from truerisk.report import write_report

webdriver = pytest.importorskip("selenium.webdriver")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="chromium or chromedriver is not installed (Debian: chromium-driver)"
)

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


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for option in [*OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


def open_page(browser, path, width, scheme):
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(path.as_uri())


def luminance(css):
    """Relative luminance (WCAG 2) of ``rgb(r, g, b)``."""
    parts = [int(p) / 255 for p in css[css.index("(") + 1 : -1].split(",")[:3]]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a, b):
    dark, light = sorted((luminance(a), luminance(b)))
    return (light + 0.05) / (dark + 0.05)


VISIBLE = "[...document.querySelectorAll('.plot svg')].filter(s => s.getClientRects().length)"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 700, 390, 320])
@pytest.mark.parametrize("kind", ["pac_bayes", "hold_out"])
def test_page(browser, tmp_path, request, kind, width, scheme):
    record = request.getfixturevalue(kind)
    record["data"]["name"] = "a" * 200  # no place to break a line
    record["warnings"] = ["<script>document.title = 'taken'</script>"]
    open_page(browser, write_report(record, tmp_path / "report.html"), width, scheme)
    run = browser.execute_script
    assert run("return window.innerWidth") == width
    assert run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert browser.title.startswith("Certificate: mlp:16")
    assert run("return document.querySelector('h1').textContent") == record["sentence"]

    [size] = run(f"return {VISIBLE}.map(s => [s.getBoundingClientRect().width, s.getBoundingClientRect().height])")
    assert size[0] > 250
    assert size[1] > 100
    smallest = run(
        f"const s = {VISIBLE}[0], k = s.getBoundingClientRect().width / s.viewBox.baseVal.width;"
        "const sizes = [...s.querySelectorAll('text')].map(t => parseFloat(getComputedStyle(t).fontSize));"
        "return k * Math.min(...sizes)"
    )
    assert smallest > 9

    assert run("return performance.getEntriesByType('resource').length") == 0
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser, tmp_path, pac_bayes, scheme):
    open_page(browser, write_report(pac_bayes, tmp_path / "report.html"), 1200, scheme)
    run = browser.execute_script
    paper = run("return getComputedStyle(document.body).backgroundColor")
    assert (luminance(paper) > 0.5) == (scheme == "light")
    for selector in ("h1", ".kicker", ".numbers dd:last-child", "figcaption", "td", "li", "footer"):
        colour = run("return getComputedStyle(document.querySelector(arguments[0])).color", selector)
        assert contrast(colour, paper) >= 4.5, selector
    fill = "getComputedStyle(e).fill"
    bars = run(f"return [...{VISIBLE}[0].querySelectorAll('.mark-rect path')].map(e => {fill})")
    assert len(bars) == 5
    for colour in bars:
        assert contrast(colour, paper) >= 3
    labels = run(f"return [...{VISIBLE}[0].querySelectorAll('.layer_1_marks text')].map(e => {fill})")
    assert labels
    for label, bar in ((label, bar) for label in labels for bar in (bars[0], bars[2])):
        assert contrast(label, bar) >= 4.5
    titles = run(f"return [...{VISIBLE}[0].querySelectorAll('.layer_2_marks text, .role-axis text')].map(e => {fill})")
    for colour in titles:
        assert contrast(colour, paper) >= 4.5
