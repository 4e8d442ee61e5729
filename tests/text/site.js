// site.js CHECK FOLDER: checks the web site in this folder, and prints a line for each problem. CHECK is links (all files and
// anchors exist, nothing comes from another host), pages (no script fails, no page is wider than a phone), search or
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

const words = (box) => box.$eval(".words", (one) => one.textContent);

async function timeline({ runs }, box, page) {
    for (const { setting, step, collectives, hidden, idle, memory, lists } of runs.filter((_, i) => i % 3 === 0)) {
        for (let pass = 0; pass < 2; pass++) // a value may be there only after another one has been chosen
            for (const [i, value] of setting.entries())
                await box.$eval(`input[data-control="${i}"][value="${value}"]`, (input) => input.click());
        const shown = await box.$$eval("dd", (all) => Object.fromEntries(all.map((one) => [one.dataset.value, one.textContent])));
        const bars = await box.$$eval("rect[data-kind]:not([data-kind=late])", (all) => all.length);
        const numbers = (text) => text.match(/\d+(\.\d+)?/g).map(Number);
        const wanted = [step, ...idle?.map((share) => +(100 * share).toFixed(1)) ?? [collectives, hidden], ...Object.values(memory)];
        const got = [...numbers(shown.step), ...numbers(shown.idle ?? shown.hidden).slice(0, 2), ...numbers(shown.memory).slice(1)];
        if (String(got) !== String(wanted) || !bars || bars > lists.flatMap((list) => list.spans).length)
            report(page, `${setting}: shows ${got} instead of ${wanted}, with ${bars} bars`);
    }
}

async function ring({ states }, box, page, tab) {
    await (await box.$("input[type=range]")).focus();
    for (const [round, state] of states.entries()) {
        const shown = (await box.$$eval(".number", (all) => all.map((one) => Number(one.textContent))));
        if (String(shown) !== String(state.flat()))
            report(page, `round ${round} shows ${shown}`);
        if (!(await words(box)).startsWith(round ? `Round ${round} of ${states.length - 1}` : "Start"))
            report(page, `round ${round} says ${await words(box)}`);
        await tab.keyboard.press("ArrowRight");
    }
}

async function film(frames, box, page, tab) {
    await (await box.$("input[type=range]")).focus();
    for (const [name, buffer, summed] of frames) {
        const held = await box.$$eval(".half", (all) => all.map((one) => one.textContent));
        if (held.length !== 2 * (2 + summed.length + (buffer ? 2 : 0)) || !held.includes(buffer ? `${buffer}1` : "B1"))
            report(page, `frame ${name} shows ${held}`);
        if (!(await words(box)).includes(`${name}.`))
            report(page, `frame ${name} says ${await words(box)}`);
        await tab.keyboard.press("ArrowRight");
    }
}

async function players(context) {
    const tab = await context.newPage();
    let count = 0;
    for (const page of all.filter((name) => fs.readFileSync(name, "utf8").includes('class="player"'))) {
        await tab.goto(`file://${page}`);
        for (const box of await tab.$$(".player")) {
            const data = await box.$eval("script", (script) => JSON.parse(script.textContent));
            await { timeline, ring, film }[await box.getAttribute("data-kind")](data, box, page, tab);
            await (await box.$("input[type=range]")).focus();
            await tab.keyboard.press("Home");
            await (await box.$(".transport button:first-child")).click(); // play: the slider moves on without keys
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
        await { pages, search, players }[check](context);
        await browser.close();
    }
    console.log(problems.slice(0, 30).join("\n"));
    process.exitCode = problems.length > 0 ? 1 : 0;
})();
