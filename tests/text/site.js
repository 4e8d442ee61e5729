// site.js CHECK FOLDER: checks the web site in this folder, and prints a line for each problem. CHECK is links (all files and
// anchors exist, nothing comes from another host), pages (no script fails, no page is wider than a phone), paper, search or
// players. NODE_PATH holds playwright-core; Chromium opens the pages from the disk.
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");

const [check, folder] = [process.argv[2], path.resolve(process.argv[3])];
const problems = [];
const report = (page, text) => problems.push(`${path.relative(folder, page)}: ${text}`);
const all = fs.readdirSync(folder, { recursive: true }).filter((name) => name.endsWith(".html"))
    .map((name) => path.join(folder, name)).filter((name) => !/\/slides\//.test(name)); // they have tests of their own

function links() {
    const texts = new Map(), read = (page) => texts.get(page) ?? texts.set(page, fs.readFileSync(page, "utf8")).get(page);
    for (const page of all)
        for (const [, kind, target] of read(page).matchAll(/<(\w+)[^>]*? (?:href|src)="([^"]*)"/g)) {
            if (/^(https?|mailto):/.test(target) && kind === "a" || target.startsWith("data:"))
                continue;
            const [file, anchor] = target.split("#"), found = file ? path.resolve(path.dirname(page), file) : page;
            if (/^(\w+:|\/)/.test(target) || path.relative(folder, found).startsWith(".."))
                report(page, `${target} is not on the site`);
            else if (!fs.existsSync(found) || fs.statSync(found).isDirectory())
                report(page, `${target} does not exist`);
            else if (anchor && !read(found).includes(`id="${anchor}"`))
                report(page, `${target} has no such anchor`);
        }
}

async function pages(context) {
    const tab = await context.newPage();
    await tab.setViewportSize({ width: 390, height: 800 });
    let here;
    tab.on("pageerror", (error) => report(here, `a script fails: ${error.message}`));
    tab.on("requestfailed", (request) => // the next page ends what the last one still loads
        request.failure().errorText === "net::ERR_ABORTED" || report(here, `cannot load ${request.url()}`));
    // Exercises are alike, and so are source pages: a few of them stand for the others.
    const seen = all.filter((page, i) => !/\/(source|exercises)\//.test(page) || i % 12 === 0 || /source\/.*\/train\.c/.test(page));
    for (here of seen) {
        await tab.goto(`file://${here}`);
        const width = await tab.evaluate(() => document.fonts.ready.then(() => document.documentElement.scrollWidth));
        if (width > 390)
            report(here, `is ${width} pixels wide on a phone with 390`);
        const fits = ".table:has([href^='09_tensor']), [data-kind=ring] .drawing, [data-kind=film] .drawing"; // other tables and drawings scroll
        if (await tab.$$eval(fits, (all) => all.some((one) => one.scrollWidth > one.clientWidth)))
            report(here, `the table of steps, the ring or the film is wider than a phone`);
    }
}

// A page on A4 paper, printed by a reader of the dark theme.
async function paper(context) {
    const tab = await context.newPage();
    await tab.setViewportSize({ width: 718, height: 1047 });
    await tab.emulateMedia({ media: "print" });
    for (const page of all.filter((page, i) => !/\/(source|exercises)\//.test(page) || i % 12 === 0)) {
        await tab.goto(`file://${page}`);
        const found = await tab.evaluate(() => {
            document.documentElement.dataset.theme = "dark";
            const shown = [...document.querySelectorAll("main, main *")].filter((one) => one instanceof HTMLElement && one.checkVisibility());
            const cut = shown.filter((one) => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline");
            const ground = getComputedStyle(document.documentElement).backgroundColor;
            return [...cut.map((one) => `${one.tagName} ${one.className} is cut: ${one.textContent.slice(0, 60)}`),
                ...ground === "rgb(255, 255, 255)" ? [] : [`the paper is ${ground}`],
                ...shown.filter((one) => one.matches("button, input")).map((one) => `${one.outerHTML} does nothing there`)];
        });
        found.forEach((text) => report(page, text));
    }
}

async function search(context) {
    const tab = await context.newPage(), page = path.join(folder, "05_fsdp/index.html"); // a page in a folder
    await tab.goto(`file://${page}`);
    await tab.keyboard.press("/");
    await tab.keyboard.type("all-reduce");
    await tab.waitForSelector("#found [aria-selected=true] a");
    const targets = await tab.$$eval("#found a", (found) => found.map((link) => link.href));
    if (!targets.some((target) => target.endsWith("06_allreduce_demo/index.html")))
        report(page, `a search for all-reduce finds ${targets}`);
    if (!targets[0].endsWith("docs/glossary.html#all-reduce"))
        report(page, `a search for all-reduce begins with ${targets[0]}`);
    for (const target of new Set(targets.map((one) => one.split("#")[0])))
        if (!/all-reduce/i.test(fs.readFileSync(new URL(target), "utf8")))
            report(page, `a search for all-reduce finds ${target}`);
    await tab.keyboard.press("ArrowDown");
    await tab.keyboard.press("Enter");
    await tab.waitForURL(targets[1]);
}

// The keyboard steps through each player, and it plays without keys.
async function players(context) {
    const tab = await context.newPage();
    let count = 0;
    for (const page of all.filter((name) => fs.readFileSync(name, "utf8").includes('class="player"'))) {
        await tab.goto(`file://${page}`);
        for (const box of await tab.$$(".player")) {
            const drawing = () => box.evaluate((one) => one.querySelector(".drawing").innerHTML);
            const slider = await box.$("input[type=range]"), shown = new Set();
            await slider.focus();
            await tab.keyboard.press("Home");
            for (let i = await slider.evaluate((one) => Number(one.max)); i > 0 && shown.size < 20; i--) {
                shown.add(await drawing());
                await tab.keyboard.press("ArrowRight");
            }
            if (shown.size < 2)
                report(page, `the player ${await box.getAttribute("data-kind")} shows the same at each place`);
            await tab.keyboard.press("Home");
            await (await box.$(".transport button:first-child")).click();
            await tab.waitForFunction((one) => one.querySelector("input[type=range]").value > 0, box);
            count++;
        }
    }
    if (count !== 8)
        report(folder, `the pages have ${count} players`);
}

(async () => {
    if (check === "links") {
        links();
    } else {
        const timeout = 300000; // a busy machine is slow
        const browser = await chromium.launch({ executablePath: process.env.CHROME_PATH, args: ["--no-sandbox"], timeout });
        const context = await browser.newContext();
        context.setDefaultTimeout(timeout);
        await { pages, paper, search, players }[check](context);
        await browser.close();
    }
    console.log(problems.slice(0, 30).join("\n"));
    process.exitCode = problems.length > 0 ? 1 : 0;
})();
