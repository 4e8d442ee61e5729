#!/usr/bin/env python3
"""browse_pages.py FOLDER: opens the pages of tools/diff_pages.py in Chromium, at the size of a projector, and presses their
keys. Prints each fault; exits with 1 if there are any."""
import glob
import os
import sys

sys.dont_write_bytecode = True
from browser import Browser  # noqa: E402

WIDTH, HEIGHT = 1280, 720
SMALLEST = 20  # points of code
RIGHT = "\ue014"

OVERFLOW = """
const page = document.documentElement, faults = [];
if (page.scrollWidth > innerWidth)
    faults.push(`the page is ${page.scrollWidth} wide`);
for (const element of document.body.querySelectorAll("*")) {
    if (getComputedStyle(element).display === "inline" || element.closest("details:not([open]) > :not(summary)"))
        continue; // blanks at the end of a line may hang over its edge
    const box = element.getBoundingClientRect();
    if (box.right > innerWidth + 1 || box.left < -1 || element.matches("td.c") && element.scrollWidth > element.clientWidth + 1)
        faults.push(`<${element.tagName} class="${element.className}"> ${box.left} to ${box.right}: ${element.textContent}`);
}
for (const element of document.querySelectorAll("td.c, header, summary"))
    if (parseFloat(getComputedStyle(element).fontSize) < (element.matches("td") ? arguments[0] : 16))
        faults.push(`<${element.tagName}> has small letters`);
return faults.slice(0, 5).map((fault) => fault.slice(0, 120));"""

# The changes that are not folded, as [top, bottom] of their first rows.
CHANGES = """return [...document.querySelectorAll(".change")].filter((row) => !row.closest("details:not([open])"))
    .map((row) => row.getBoundingClientRect()).map((box) => [box.top, box.bottom]);"""
COVERED = "return document.activeElement.getBoundingClientRect().bottom"  # by the bar and the name of the function below it
PLACE = 'return document.getElementById("where").textContent'
OPEN = 'return [...document.querySelectorAll("details")].map((each) => each.open)'
FOCUSED = 'return [...document.querySelectorAll("details")].indexOf(document.activeElement.closest("details"))'


def browse(browser, page, fault):
    def look(state):
        for each in browser.run(OVERFLOW, SMALLEST):
            fault(f"{state}: {each}")
    browser.open(page)
    look("at first")
    changes = len(browser.run(CHANGES))
    if not changes:
        fault("no change is shown")
    for n in range(changes):
        browser.press("nj"[n % 2])
        top, bottom = browser.run(CHANGES)[n]
        if not browser.run(COVERED) <= top < bottom <= HEIGHT:
            fault(f"n does not show change {n + 1}: it is at {top:.0f} to {bottom:.0f}")
        if browser.run(PLACE) != f"change {n + 1} of {changes}":
            fault(f"the bar says {browser.run(PLACE)} at change {n + 1} of {changes}")
    for n in reversed(range(changes - 1)):
        browser.press("pk"[n % 2])
        if browser.run(PLACE) != f"change {n + 1} of {changes}":
            fault(f"p goes to {browser.run(PLACE)}, not to {n + 1}")
            break
    opened = browser.run(OPEN)
    browser.open(page)
    browser.run("scrollTo(0, 0)")
    for n, key in enumerate(["]", RIGHT, "]", "[", "]"]):
        browser.press(key)
        wanted = [0, 1, 2, 1, 2][n]
        if browser.run(FOCUSED) != wanted:
            fault(f"{key!r} goes to definition {browser.run(FOCUSED)}, not {wanted}")
    browser.press("o")
    if browser.run(OPEN) != opened[:2] + [not opened[2]] + opened[3:]:
        fault("o does not fold the definition")
    browser.press("o", "O")
    look("all functions open")
    if False in [each for each in browser.run('return [...document.querySelectorAll(".unchanged")].map((each) => each.open)')]:
        fault("O does not open all")
    browser.run('document.querySelectorAll("details").forEach((each) => { each.open = true; })')
    look("everything open")
    browser.press("s")
    look("one column")
    browser.press("s", "?")
    if not browser.run('return document.getElementById("help").open'):
        fault("? shows no keys")
    look("with the keys")
    box = browser.run('const box = document.getElementById("help").getBoundingClientRect(); return [box.top, box.bottom]')
    if box[0] < 0 or box[1] > HEIGHT:
        fault(f"the keys stand at {box}")
    browser.press("?")
    if browser.run('return document.getElementById("help").open'):
        fault("? does not hide the keys")


def main():
    folder, faults = sys.argv[1], []
    pages = sorted(glob.glob(f"{folder}/diff*.html"))
    with Browser(WIDTH, HEIGHT) as browser:
        for page in pages + [f"{folder}/index.html"]:
            def fault(text, name=os.path.basename(page)):
                faults.append(f"{name}: {text}")
            if page in pages:
                browse(browser, page, fault)
                browser.press(str(pages.index(page) % len(pages) + 1))
                browser.press("0")
                if not browser.run("return location.href").endswith("/index.html"):
                    fault("0 does not show the list")
            else:
                browser.open(page)
                faults += [f"index.html: {each}" for each in browser.run(OVERFLOW, SMALLEST)]
                for n, wanted in enumerate(pages):
                    browser.press(str(n + 1))
                    if not browser.run("return location.href").endswith(os.path.basename(wanted)):
                        fault(f"{n + 1} leads to {browser.run('return location.href')}")
            for message in browser.messages():
                fault(message)
    print(*faults, sep="\n", end="\n" * bool(faults))
    sys.exit(bool(faults))


main()
