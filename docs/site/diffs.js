// The pages that show, side by side, which lines of train.c each step changes: whole functions, in the colours of the sources.
const fs = require("node:fs");
const { spawnSync } = require("node:child_process");
const { files, escape, highlight, placeOf, address } = require("./sources.js");

const pairs = fs.readFileSync("Makefile", "utf8").match(/^DIFFS := (.*)$/m)[1].replace(/diff/g, "").split(" ");
const trainer = (step) => [...files].find((name) => name.startsWith(`0${step}_`) && name.endsWith("/train.c"));

// HTML whose letters from `begin` to `end` are marked.
function mark(html, begin, end) {
    let at = 0;
    return html.replace(/<[^>]*>|&[^;]*;|[^]/g, (part) =>
        part.length > 1 && part[0] === "<" || at++ < begin || at > end ? part : `<mark>${part}</mark>`).replaceAll("</mark><mark>", "");
}

// The cells of a line that replaces another one: their letters differ between the same begin and the same end.
function compare(a, b) {
    let first = 0, last = 0;
    while (first < Math.min(a.text.length, b.text.length) && a.text[first] === b.text[first])
        first++;
    while (last < Math.min(a.text.length, b.text.length) - first && a.text.at(-1 - last) === b.text.at(-1 - last))
        last++;
    const similar = first + last > Math.max(a.text.length, b.text.length) / 3;
    return [a, b].map((line) => ({ ...line, html: similar ? mark(line.html, first, line.text.length - last) : line.html }));
}

function rowsOf(names) {
    const all = names.map((name) => {
        const text = fs.readFileSync(name, "utf8"), html = highlight(text, "c").split("\n");
        return text.split("\n").map((line, i) => ({ number: i + 1, text: line, html: html[i] }));
    });
    const { stdout } = spawnSync("git", ["diff", "--no-index", "--no-ext-diff", "--no-textconv", "--no-color", "--diff-algorithm=minimal",
        "--indent-heuristic", "--function-context", ...names], { encoding: "utf8" });
    const [, ...hunks] = stdout.split(/^@@ -(\d+).*? \+(\d+).*\n/m), rows = [], cell = (kind, line) =>
        line ? `<td class="number">${line.number}</td><td class="${kind}">${line.html || " "}</td>` : "<td></td><td></td>";
    for (let i = 0; i < hunks.length; i += 3) {
        let at = [hunks[i] - 1, hunks[i + 1] - 1], changed = [[], []];
        const flush = () => {
            for (let j = 0; j < Math.max(...changed.map((lines) => lines.length)); j++) {
                const [old, now] = changed.map((lines) => lines[j]), both = old && now ? compare(old, now) : [old, now];
                rows.push(`<tr>${cell("removed", both[0])}${cell("added", both[1])}</tr>`);
            }
            changed = [[], []];
        };
        rows.push(...i ? ['<tr class="gap"><td colspan="4">...</td></tr>'] : []);
        for (const [sign] of hunks[i + 2].trimEnd().split("\n")) {
            if (sign === " ") {
                flush();
                rows.push(`<tr class="same">${all.map((lines, side) => cell("", lines[at[side]++])).join("")}</tr>`);
            } else if (sign !== "\\") {
                const side = sign === "-" ? 0 : 1;
                changed[side].push(all[side][at[side]++]);
            }
        }
        flush();
    }
    return rows;
}

// Returns the page of each pair, and a page that lists them.
exports.pages = () => {
    const made = pairs.map((pair) => {
        const names = [...pair].map(trainer), readme = names[1].replace("train.c", "README.md"), place = `diffs/diff${pair}.html`;
        const text = fs.readFileSync(readme, "utf8"), title = escape(text.match(/^# (.*)/)[1]);
        const idea = `<p>${escape(text.match(/^\*\*The one idea:\*\* ([^]*?)\n\n/m)[1])}</p>`;
        const heads = names.map((name) => `<th colspan="2"><a href="${address(place, placeOf(name))}">${name}</a></th>`).join("");
        const head = `<p><a href="index.html">What each step changes</a></p><h1><a href="${address(place, placeOf(readme))}">${title}` +
            `</a></h1>${idea}<table><colgroup>${'<col class="number"><col>'.repeat(2)}</colgroup><thead><tr>${heads}</tr></thead>`;
        return { place, title: `Changes of ${title}`, kind: "sides", entry: `<h2><a href="diff${pair}.html">${title}</a></h2>${idea}`,
            content: `${head}<tbody>\n${rowsOf(names).join("\n")}</tbody></table>` };
    });
    const list = made.map(({ entry }) => entry).join("");
    return [{ place: "diffs/index.html", title: "What each step changes", content: `<h1>What each step changes</h1>${list}` }, ...made];
};
