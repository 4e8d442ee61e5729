// The files of the repository: which of them are pages, where each one stands on the site, and source files with colours and
// the numbers of their lines.
const fs = require("node:fs");
const path = require("node:path").posix;
const hljs = require("highlight.js");

const SKIPPED = [".git", "build", "data", "work", "logs"]; // at the root; as in .gitignore
const LANGUAGES = { ".c": "c", ".h": "c", ".cu": "cpp", ".cpp": "cpp", ".py": "python", ".mk": "makefile", ".ipynb": "json",
    ".json": "json", ".cff": "yaml", ".sh": "bash", ".sbatch": "bash", ".pbs": "bash", ".bash": "bash", ".bats": "bash" };
// All sources of these folders have a page.
const SHOWN = /^(0\d_|common\/|zoo\/|watch\/|cpu_device\/|tools\/|slurm\/|pbs\/).*\.(c|h|cu|py|sh|mk|sbatch|pbs|model)$/;

const walk = (folder) => fs.readdirSync(folder || ".", { withFileTypes: true }).flatMap((entry) => {
    const name = path.join(folder, entry.name);
    return entry.isDirectory() ? (folder || !SKIPPED.includes(name) ? walk(name) : []) : entry.isFile() ? [name] : [];
});
const files = new Set(walk(""));
const decks = [...files].filter((name) => /^docs\/slides\/\d.*\.md$/.test(name));
const texts = [...files].filter((name) => name.endsWith(".md") && !name.startsWith(".") && !decks.includes(name));
const linked = new Set([...files].filter((name) => SHOWN.test(name))); // source files that have a page; links add others

// Where a file of the repository is on the site, or undefined if it does not exist.
function placeOf(name) {
    if (texts.includes(name))
        return name.replace(/README\.md$/, "index.md").replace(/\.md$/, ".html");
    const slides = name.replace(/^docs\/slides\/(.*)\.md$/, "slides/$1.html");
    if (decks.includes(name) && fs.existsSync(`build/${slides}`))
        return slides;
    if (name.endsWith(".svg") || !files.has(name))
        return files.has(name) ? name : undefined;
    linked.add(name);
    return `source/${name}.html`;
}

// A relative address, so that the site works in any folder and from a disk.
const address = (from, to) => path.relative(path.dirname(from), to) || path.basename(to);

const lines = (name) => fs.readFileSync(name, "utf8").trimEnd().split("\n");
const escape = (text) => text.replace(/[&<>"]/g, (letter) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[letter]);
const highlight = (text, language) =>
    hljs.getLanguage(language) ? hljs.highlight(text, { language, ignoreIllegals: true }).value : escape(text);
const languageOf = (name) => LANGUAGES[path.extname(name)] || (/Makefile$/.test(name) ? "makefile" : "");

// A block of code with a column of numbers, which link to `target`. null: no number.
function numbered(text, language, numbers, target = "") {
    const column = numbers.map((n) => n === null ? "<span> </span>" : target
        ? `<a href="${target}#L${n}" tabindex="-1">${n}</a>` : `<a id="L${n}" href="#L${n}" tabindex="-1">${n}</a>`);
    return `<div class="code"><pre class="numbers">${column.join("")}</pre>` +
        `<pre tabindex="0"><code>${highlight(text, language)}\n</code></pre></div>`;
}

function sourcePage(name) {
    const siblings = [...linked].filter((other) => path.dirname(other) === path.dirname(name)).sort();
    const readme = placeOf(path.join(path.dirname(name), "README.md"));
    const place = placeOf(name), content = lines(name);
    const folder = readme ? ` in <a href="${address(place, readme)}">${path.dirname(name)}</a>` : "";
    return { title: name, place, kind: "file",
        siblings: siblings.map((other) => ({ href: address(place, placeOf(other)), name: path.basename(other) })),
        content: `<h1 class="file">${path.basename(name)}</h1><p>${name}${folder}</p>` +
            numbered(content.join("\n"), languageOf(name), content.map((_, i) => i + 1)) };
}

// The number of the line that defines a function, struct or table at the left margin of a source file, or 0.
function definition(name, word) {
    const pattern = new RegExp(`^[a-z_].*\\b${word}\\b *(\\(|\\{|\\[.*\\] *=|=)`);
    return lines(name).findIndex((line, i, all) => pattern.test(line) && !line.split("//")[0].trimEnd().endsWith(";") &&
        !/^(return|else)/.test(line)) + 1;
}

// The numbers of the lines of a quote, whose lines of three dots stand for any lines; null where the source has no such line.
function linesOf(quote, name, word) {
    const all = lines(name).map((line) => line.trim());
    let at = word ? Math.max(definition(name, word) - 1, 0) : 0;
    return quote.map((line, i) => {
        const isNew = i === 0 || quote[i - 1].trim() === "...";
        const found = isNew ? all.findIndex((other, j) => j >= at && other === line.trim() &&
            (i + 1 >= quote.length || quote[i + 1].trim() === "..." || all[j + 1] === quote[i + 1].trim())) : at;
        if (line.trim() === "..." || found < 0 || all[found] !== line.trim())
            return null;
        at = found + 1;
        return found + 1;
    });
}

module.exports = { files, texts, decks, linked, placeOf, address, escape, highlight, languageOf, numbered, sourcePage, definition,
    linesOf };
