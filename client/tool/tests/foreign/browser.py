"""Opens what halprof wrote in headless Chromium, uses it, and prints what came of it as JSON.

    browser.py page HTML STEPS [PICTURES]       a page of `halprof export`, with what a reader does in
                                                it, as JSON: see `Reader`
    browser.py picture SVG...                   pictures
    browser.py speedscope INDEX.HTML FILE...    files, in speedscope
"""

import json
import pathlib
import sys

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

SECONDS = 30


def chromium():
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.add_argument("--window-size=1280,1600")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def url(path):
    return pathlib.Path(path).resolve().as_uri()


def complaints(browser):
    wrong = ("WARNING", "SEVERE")
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] in wrong]


# Everything that the page shows: the rows of the table, the frames of the flame graph, and the rest.
SEEN = """
const text = (id) => document.getElementById(id).textContent;
const cells = (row) => [...row.cells].map((cell) => cell.textContent);
const lanes = [...document.querySelectorAll('#lanes .lane')].filter((lane) => lane.querySelector('.choice'));
return {
  heads: cells(document.querySelector('#places thead tr')),
  sorted: document.querySelector('#places th[aria-sort]')?.getAttribute('aria-sort') ?? null,
  rows: [...document.querySelectorAll('#places tbody tr')].map(cells),
  frames: [...document.querySelectorAll('#flame .frame')].map((frame) => ({
    name: frame.getAttribute('aria-label'),
    label: frame.textContent,
    level: Number(frame.getAttribute('aria-level')),
    width: frame.getBoundingClientRect().width / document.getElementById('flame').clientWidth,
    isHit: frame.classList.contains('hit'),
    isDim: frame.classList.contains('dim'),
  })),
  lanes: lanes.map((lane) => [lane.querySelector('.choice').textContent, lane.querySelector('.value').textContent]),
  range: ['from', 'to'].map((id) => document.getElementById(id).value),
  outside: ['before', 'after'].map((side) => Number(document.querySelector(`#lanes .${side}`).getAttribute('width'))),
  shown: text('shown'),
  matched: text('matched'),
  hover: text('hover'),
  narrow: text('narrow'),
  command: text('command'),
  details: [...document.querySelectorAll('#details section')].map((part) => [
    part.querySelector('h4').textContent.split(',')[0], [...part.querySelectorAll('tr')].map(cells)]),
  focused: document.activeElement.getAttribute('aria-label'),
  flaws: [...document.querySelectorAll('#flaws .flaw')].map((flaw) => flaw.textContent),
};
"""


class Reader:
    """Does what a reader of the page does. A step is the name of a method and its arguments."""

    def __init__(self, browser):
        self.browser = browser

    def do(self, name, *arguments):
        getattr(self, name)(*arguments)
        more = self.browser.find_element(By.ID, "more")
        while more.is_displayed():
            self.click(more)
        return self.browser.execute_script(SEEN)

    def look(self):
        pass

    def click(self, element):
        # What is sticky may lie over an element that is scrolled to.
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def button(self, where, text):
        buttons = self.browser.find_elements(By.CSS_SELECTOR, where)
        self.click(next(one for one in buttons if one.get_attribute("textContent").startswith(text)))

    def source(self, name):
        Select(self.browser.find_element(By.ID, "source")).select_by_visible_text(name)

    def range(self, *times):
        for name, time in zip(("from", "to"), times):
            field = self.browser.find_element(By.ID, name)
            field.clear()
            field.send_keys(time, Keys.TAB)

    def drag(self, begin, end):
        plot = self.browser.find_element(By.CSS_SELECTOR, "#lanes .plot")
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
        width = plot.size["width"]
        middle = width // 2
        drag = ActionChains(self.browser).move_to_element_with_offset(plot, int(begin * width) - middle, 0)
        drag.click_and_hold().move_by_offset(int((end - begin) * width), 0).release().perform()

    def search(self, text):
        field = self.browser.find_element(By.ID, "search")
        field.clear()
        field.send_keys(text or "x\b")

    def press(self, *keys):
        self.browser.switch_to.active_element.send_keys(*(getattr(Keys, key) for key in keys))

    def focus(self):
        self.browser.execute_script("document.querySelector('#flame [tabindex=\"0\"]').focus()")

    def invert(self):
        self.click(self.browser.find_element(By.ID, "invert"))

    def callers(self):
        self.click(self.browser.find_element(By.ID, "callers"))

    def sort(self, column):
        self.button("#places th button", column)

    def select(self, function):
        self.button("#places .choice", function)

    def lane(self, name):
        self.button("#lanes .choice", name)

    def threads(self, process):
        opener = f"#lanes .opener[aria-label='Threads of {process}']"
        self.click(self.browser.find_element(By.CSS_SELECTOR, opener))

    def frame(self, name):
        frames = self.browser.find_elements(By.CSS_SELECTOR, "#flame .frame")
        return next(frame for frame in frames if frame.get_attribute("aria-label").startswith(f"{name}: "))

    def zoom(self, name):
        self.click(self.frame(name))

    def point(self, name):
        frame = self.frame(name)
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", frame)
        ActionChains(self.browser).move_to_element(frame).perform()


def page(browser, path, steps, pictures=None):
    told = {}
    browser.get(url(path))
    told["title"] = browser.title
    told["milliseconds"] = browser.execute_script(
        "const [page] = performance.getEntriesByType('navigation'); return page.domComplete")
    reader = Reader(browser)
    told["seen"] = [reader.do(*step) for step in json.loads(steps)]
    told["injected"] = browser.execute_script("return window.injected ?? null")
    told["scripts"] = browser.execute_script("return document.scripts.length")
    told["loaded"] = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
    told["widths"] = {}
    for width in (1280, 700, 420):
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 1600, "deviceScaleFactor": 1, "mobile": False})
        told["widths"][width] = browser.execute_script(
            "return [document.documentElement.scrollWidth, window.innerWidth]")
    told["complaints"] = complaints(browser)
    if pictures:
        photograph(browser, path, pathlib.Path(pictures))
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(url(path))
    told["without script"] = browser.execute_script(
        "return {rows: [...document.querySelectorAll('#places tbody tr')].filter((row) => row.offsetParent)"
        ".map((row) => [...row.cells].map((cell) => cell.textContent)),"
        "controls: document.getElementById('bar').offsetParent !== null}")
    return told


def photograph(browser, path, folder):
    for width in (1400, 700, 420):
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 1600, "deviceScaleFactor": 1, "mobile": False})
        for scheme in ("light", "dark"):
            browser.execute_cdp_cmd(
                "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            browser.get(url(path))
            browser.save_screenshot(folder / f"{width}-{scheme}.png")


def picture(browser, *paths):
    told = []
    for path in paths:
        browser.get(url(path))
        told.append({
            "root": browser.execute_script("return document.documentElement.tagName"),
            "title": browser.execute_script("return document.querySelector('title').textContent"),
            "texts": browser.execute_script(
                "return [...document.querySelectorAll('text')].map((text) => text.textContent)"),
            "titles": browser.execute_script(
                "return [...document.querySelectorAll('title')].map((title) => title.textContent)"),
            "outside": browser.execute_script(
                "const room = document.documentElement.getBoundingClientRect();"
                "return [...document.querySelectorAll('text, path, rect')].filter((mark) => {"
                "const box = mark.getBoundingClientRect();"
                "return !mark.closest('svg.f') && box.width > 0 && (box.left < room.left - 1 || box.right > room.right + 1"
                " || box.top < room.top - 1 || box.bottom > room.bottom + 1);"
                "}).map((mark) => mark.outerHTML)"),
            "injected": browser.execute_script("return window.injected ?? null"),
            "complaints": complaints(browser),
        })
    return told


def speedscope(browser, index, *paths):
    told = []
    for path in paths:
        browser.get("about:blank")
        browser.get(url(index))
        wait = WebDriverWait(browser, SECONDS)
        wait.until(lambda b: b.find_elements(By.CSS_SELECTOR, "input[type=file]"))
        browser.find_element(By.CSS_SELECTOR, "input[type=file]").send_keys(str(pathlib.Path(path).resolve()))
        body = browser.find_element(By.TAG_NAME, "body")
        wait.until(lambda b: "Sandwich" in body.text)
        body.send_keys("3")
        wait.until(lambda b: "Symbol Name" in body.text)
        told.append(browser.execute_script(
            "return [...document.querySelectorAll('table tr')]"
            ".map((row) => [...row.cells].map((cell) => cell.textContent))"
            ".filter((cells) => cells.length === 3 && cells[1].endsWith(')'))"))
    return told


if __name__ == "__main__":
    browser = chromium()
    try:
        print(json.dumps(globals()[sys.argv[1]](browser, *sys.argv[2:])))
    finally:
        browser.quit()
