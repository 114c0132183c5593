"""Opens what halprof wrote in headless Chromium, uses it, and prints what came of it as JSON.

    browser.py page HTML [PICTURES]             a page of `halprof export --format html`
    browser.py picture SVG...                   pictures
    browser.py speedscope INDEX.HTML FILE...    files, in speedscope
"""

import json
import pathlib
import sys

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

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


def rows(browser):
    """The text of every row that is shown, cell by cell."""
    return browser.execute_script(
        "return [...document.querySelectorAll('#places tbody tr')].filter((row) => row.offsetParent)"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )


def frames(browser):
    """Every frame of the first flame graph by its name: its width, and whether it is marked."""
    return browser.execute_script(
        "const first = document.querySelector('svg.f').parentNode;"
        "return Object.fromEntries([...first.querySelectorAll('svg.f')].map((frame) => ["
        "frame.querySelector('text').textContent,"
        "{width: frame.getBoundingClientRect().width, hit: frame.classList.contains('hit')}]))"
    )


def click(browser, column):
    heads = browser.find_elements(By.CSS_SELECTOR, "#places th button")
    next(head for head in heads if head.text.startswith(column)).click()


def page(browser, path, pictures=None):
    told = {}
    browser.get(url(path))
    told["title"] = browser.title
    told["rows"] = rows(browser)
    told["frames"] = frames(browser)
    told["sorted"] = {}
    for column in ("Samples", "Samples again", "Symbol", "Symbol again"):
        click(browser, column.split()[0])
        told["sorted"][column] = rows(browser)
    search = browser.find_element(By.ID, "filter")
    search.send_keys("SECOND")
    told["filtered"] = {
        "rows": rows(browser),
        "frames": frames(browser),
        "count": browser.find_element(By.ID, "count").text,
    }
    search.clear()
    search.send_keys("x\b")
    told["unfiltered"] = rows(browser)
    all_frames = browser.find_elements(By.CSS_SELECTOR, "svg.f")
    named = {frame.find_element(By.TAG_NAME, "title").get_attribute("textContent").split(":")[0]: frame
             for frame in reversed(all_frames)}
    named["second"].click()
    told["zoomed"] = frames(browser)
    named["alpha.exe (8)"].click()
    told["zoomed out"] = frames(browser)
    told["injected"] = browser.execute_script("return window.injected ?? null")
    told["scripts"] = browser.execute_script("return document.scripts.length")
    told["loaded"] = browser.execute_script("return performance.getEntriesByType('resource').map((e) => e.name)")
    told["widths"] = {}
    for width in (1280, 600):
        browser.set_window_size(width, 1600)
        told["widths"][width] = browser.execute_script(
            "return [document.documentElement.scrollWidth, window.innerWidth]")
    told["complaints"] = complaints(browser)
    if pictures:
        photograph(browser, path, pathlib.Path(pictures))
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.get(url(path))
    told["without script"] = {
        "rows": rows(browser),
        "filter shown": browser.find_element(By.ID, "filter").is_displayed(),
    }
    return told


def photograph(browser, path, folder):
    browser.set_window_size(1280, 1600)
    for scheme in ("light", "dark"):
        browser.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        browser.get(url(path))
        browser.save_screenshot(folder / f"{scheme}.png")


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
