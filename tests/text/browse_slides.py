#!/usr/bin/env python3
"""browse_slides.py PAGE...: opens decks of slides in Chromium, and prints what runs over the edge of a slide, what the console
shows, and a timer that does not start."""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser  # noqa: E402

# All slides are in the page, at the same place, and only one is visible.
OUTSIDE = """
    const found = [];
    document.querySelectorAll("section").forEach((section, i) => {
        const slide = section.getBoundingClientRect();
        section.querySelectorAll("*").forEach(element => {
            const box = element.getBoundingClientRect();
            if (box.width && (box.right > slide.right + 1 || box.bottom > slide.bottom + 1 || box.left < slide.left - 1))
                found.push(`slide ${i + 1}: <${element.tagName}> runs over: ${element.textContent.trim().slice(0, 60)}`);
        });
    });
    return [document.querySelectorAll("section").length, found];
"""
TIMER = """
    const timer = document.querySelector(".timer"), before = timer.textContent;
    timer.click();
    return new Promise(done => setTimeout(() => done(timer.textContent !== before), 2500));
"""


def main():
    problems = 0
    with Browser(1280, 720) as browser:
        for page in sys.argv[1:]:
            browser.open(page)
            found = [] if browser.run(TIMER) else ["the timer does not start"]
            found += browser.messages()
            slides, outside = browser.run(OUTSIDE)
            browser.messages()  # leaves out those about OUTSIDE, which looks at hidden slides
            found += outside if slides else ["no slides"]
            for problem in found:
                problems += 1
                print(f"{os.path.basename(page)}: {problem}")
    return problems > 0


if __name__ == "__main__":
    sys.exit(main())
