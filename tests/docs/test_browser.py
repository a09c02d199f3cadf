"""The site in a real browser: navigation, search, the explorer, wide and on a phone."""

import contextlib
import functools
import http.server
import shutil
import threading
import time

import pytest

pytestmark = pytest.mark.slow

WINDOWS = {"wide": (1400, 1000), "phone": (390, 844)}


@pytest.fixture(scope="module")
def address(site):
    """The site on this machine's loopback."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(params=WINDOWS)
def browser(request, tmp_path):
    """Headless Chromium in a window of each size; a console error fails the test."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs `pip install .[docs]`")
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("no Chromium with its chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        f"--user-data-dir={tmp_path}",
    ):
        options.add_argument(argument)
    width, height = WINDOWS[request.param]
    options.add_argument(f"--window-size={width},{height}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    if request.param == "phone":
        metrics = {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 2.0}}
        options.add_experimental_option("mobileEmulation", metrics)
    service = webdriver.ChromeService(driver)
    with contextlib.closing(_Quits(webdriver.Chrome(options, service))) as held:
        yield held.driver
        errors = [entry for entry in held.driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not errors, errors


class _Quits:
    def __init__(self, driver):
        self.driver = driver

    def close(self):
        self.driver.quit()


def wait(browser, condition, seconds=60):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, seconds).until(condition)


def one(browser, selector):
    return browser.find_element("css selector", selector)


def fits(browser):
    """Whether the page is no wider than its window."""
    return browser.execute_script(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1"
    )


def is_phone(browser):
    return browser.execute_script("return window.innerWidth") < 600


def test_navigation(browser, address):
    browser.get(f"{address}/index.html")
    assert "tfconcrete" in browser.title and fits(browser)
    picture = one(browser, "article img")
    wait(browser, lambda b: b.execute_script("return arguments[0].naturalWidth", picture) > 300)
    if is_phone(browser):
        browser.execute_script("document.getElementById('__drawer').click()")
        link = browser.execute_script(
            "return [...document.querySelectorAll('.md-nav__link')]"
            ".find(x => x.href && x.href.endsWith('masks.html'))"
        )
        browser.execute_script("arguments[0].click()", link)
    else:
        browser.find_element("link text", "Guides").click()
        wait(browser, lambda b: "choose" in b.current_url)
        browser.find_element("link text", "Masks").click()
    wait(browser, lambda b: one(b, "h1").text.startswith("Masks"))
    source = "source/tfconcrete/layers/concrete"
    for page in ("gallery", "api/layers", "guides/migrating", "results", source):
        browser.get(f"{address}/{page}.html")
        assert fits(browser), page
        loaded = "return [...document.images].every(x => x.loading == 'lazy' || x.naturalWidth > 0)"
        assert browser.execute_script(loaded), page


def test_search(browser, address):
    browser.get(f"{address}/index.html")
    if is_phone(browser):
        browser.execute_script("document.getElementById('__search').click()")
    field = one(browser, "input.md-search__input")
    browser.execute_script("arguments[0].focus()", field)
    field.send_keys("GapStraightThrough")

    def found(b):
        script = "return [...document.querySelectorAll('.md-search-result__link')].map(x => x.href)"
        return any("api/layers.html" in place for place in b.execute_script(script))

    wait(browser, found)


def test_explorer(browser, address):
    from selenium.webdriver.support.ui import Select

    def state(b):
        return one(b, "#explorer-app").get_attribute("data-state")

    def numbers():
        return [shown_value(browser, name) for name in ("near", "gap", "bias", "variance")]

    browser.get(f"{address}/explorer.html")
    wait(browser, lambda b: state(b) == "Concrete (soft)|3|2/3")
    wait(browser, lambda b: len(b.find_elements("css selector", "#explorer-app .main-svg")) >= 4)
    assert fits(browser)
    before, points = numbers(), marker_positions(browser)
    browser.execute_script(
        "const x = document.querySelector('[name=temperature]'); x.value = 1;"
        "x.dispatchEvent(new Event('input'))"
    )
    wait(browser, lambda b: state(b) == "Concrete (soft)|3|0.1")
    assert all(old != new for old, new in zip(before, numbers(), strict=True))
    assert marker_positions(browser) != points
    Select(one(browser, "[name=classes]")).select_by_visible_text("10")
    Select(one(browser, "[name=estimator]")).select_by_visible_text("ReinMax")
    wait(browser, lambda b: state(b) == "ReinMax|10|0.1")
    assert shown_value(browser, "near") == "1.00"
    assert "one-hot" in one(browser, "#explorer-app .reading").text

    # The address holds the settings; the button sweeps the temperature until it is moved by hand.
    kept = browser.current_url
    browser.get("about:blank")
    browser.get(kept)
    wait(browser, lambda b: state(b) == "ReinMax|10|0.1")
    one(browser, "[name=play]").click()
    wait(browser, lambda b: state(b) != "ReinMax|10|0.1")
    one(browser, "[name=play]").click()
    stopped = state(browser)
    time.sleep(1)  # two steps of the sweep
    assert state(browser) == stopped
    # The controls stay in sight beside the last figure.
    browser.execute_script("document.querySelector('[data-panel=gradient]').scrollIntoView()")
    covered = "return document.querySelector('#explorer-app .controls').getBoundingClientRect().top"
    wait(browser, lambda b: 0 <= b.execute_script(covered) < 150)


def shown_value(browser, name):
    return one(browser, f"[data-value={name}]").get_attribute("textContent")


def marker_positions(browser):
    return browser.execute_script(
        "return [...document.querySelectorAll('[data-panel=simplex] .point')]"
        ".map(x => x.getAttribute('transform')).join()"
    )
