"use strict";
const all = (selector) => [...document.querySelectorAll(selector)];
const top_of = (element) => element.getBoundingClientRect().top;
const bar = document.querySelector("header");
const line = () => bar.offsetHeight + 120; // a jump puts its change here, with some lines of code above it
const visible = () => all(".change").filter((row) => !row.closest("details:not([open])"));

function scroll_to(element, height) {
    scrollBy(0, top_of(element) - height);
    show_place();
}

// Shows which change is the last one above the line, and marks its rows.
function show_place() {
    const changes = visible();
    const seen = changes.filter((row) => top_of(row) <= line() + 2);
    all(".here").forEach((row) => row.classList.remove("here"));
    for (let row = seen.at(-1), first = row; row && row.matches(row === first ? ".on" : ".on:not(.change)"); row = row.nextElementSibling)
        row.classList.add("here");
    if (changes.length)
        document.getElementById("where").textContent = seen.length ? `change ${seen.length} of ${changes.length}` : `${changes.length} changes`;
}

function go_to_change(way) {
    const changes = visible();
    const next = way > 0 ? changes.find((row) => top_of(row) > line() + 2) : changes.findLast((row) => top_of(row) < line() - 2);
    if (!next)
        return way > 0 || scrollTo(0, 0);
    scroll_to(next, line());
    next.closest("details").firstElementChild.focus({preventScroll: true});
}

// The definition with the focus, if it is on the screen, else the last one that begins above the line.
function definition() {
    const focused = document.activeElement.closest("details");
    const box = focused && focused.getBoundingClientRect();
    if (box && box.bottom > bar.offsetHeight && box.top < innerHeight)
        return focused;
    return all("details").findLast((each) => top_of(each) <= line());
}

function go_to_definition(way) {
    const list = all("details");
    const next = list[list.indexOf(definition()) + way];
    if (!next)
        return;
    next.firstElementChild.focus({preventScroll: true});
    scroll_to(next, bar.offsetHeight + 8);
}

function fold() {
    const each = definition();
    if (each)
        each.open = !each.open;
}

function fold_all() {
    const list = all("details.unchanged");
    const open = list.some((each) => !each.open);
    list.forEach((each) => { each.open = open; });
}

function switch_sides() {
    const seen = visible().findLast((row) => top_of(row) <= line() + 2);
    document.body.classList.toggle("one");
    if (seen)
        scroll_to(seen, line());
}

function ask() {
    const help = document.getElementById("help");
    if (help.open)
        help.close();
    else
        help.showModal();
}

function go_to_page(n) {
    const link = n === 0 ? "index.html" : all("header nav a").map((a) => a.href)[n - 1];
    if (link)
        location.href = link;
}

const keys = {
    n: () => go_to_change(1), j: () => go_to_change(1), p: () => go_to_change(-1), k: () => go_to_change(-1),
    "]": () => go_to_definition(1), "[": () => go_to_definition(-1),
    ArrowRight: () => go_to_definition(1), ArrowLeft: () => go_to_definition(-1),
    o: fold, O: fold_all, s: switch_sides, "?": ask,
};
addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.altKey || event.metaKey) && !event.getModifierState("AltGraph"))
        return;
    const action = /^\d$/.test(event.key) ? () => go_to_page(Number(event.key)) : keys[event.key];
    if (!action)
        return;
    event.preventDefault();
    action();
});
document.getElementById("ask").addEventListener("click", ask);
addEventListener("scroll", show_place);
addEventListener("resize", show_place);
addEventListener("toggle", show_place, true);
show_place();
