// The web site of the course, which make site writes to build/site: a page for each Markdown file of the repository, a page
// for each source file that they link to, the differences of the steps, and the slides that make slides has made. All addresses
// are relative, so the site works from a disk and in any folder of a server. Eleventy renders the Markdown, markdown.js adapts it,
// and layouts/ frames it.
const fs = require("node:fs");
const path = require("node:path");
const { texts, linked, placeOf, escape, sourcePage } = require("./sources.js");
const markdown = require("./markdown.js");
const { groups, flat } = require("./navigation.js");
const diffs = require("./diffs.js");
const frame = require("./layouts/page.11ty.js");

const FONTS = { "source-sans-3": [400, 600, 700], "source-code-pro": [400, 600] };
const installed = (name) => path.join(process.env.NODE_PATH, name);

module.exports = (config) => {
    const out = process.env.SITE, content = Object.fromEntries(texts.map((name) => [name, fs.readFileSync(name, "utf8")]));
    const pages = Object.fromEntries(texts.map((name) => {
        const title = escape(content[name].match(/^# (.*)$/m)[1].replace(/`/g, ""));
        const words = title.replace(/^Step (\d): (.)/, (_, number, letter) => `${number} ${letter.toUpperCase()}`);
        return [name, { place: placeOf(name), title, short: name === "README.md" ? "The course" : words }];
    }));
    const named = (group) => ({ ...group, pages: group.pages.map((name) => pages[name]), groups: group.groups?.map(named) });
    const shared = { groups: groups(texts).map(named) };
    shared.order = flat(shared.groups);

    config.setUseGitIgnore(false);
    config.amendLibrary("md", (md) => { md.set({ html: true }); markdown.setUp(md); });
    for (const name of texts)
        config.addTemplate(`pages/${name}`, content[name], { ...shared, ...pages[name], source: name,
            permalink: pages[name].place, layout: "page.11ty.js" });
    config.addPassthroughCopy({ "docs/figures/*.svg": "docs/figures", "docs/site/assets": "assets",
        [installed("minisearch/dist/umd/index.js")]: "assets/minisearch.js" });
    for (const [name, weights] of Object.entries(FONTS))
        for (const weight of weights)
            config.addPassthroughCopy({ [installed(`@fontsource/${name}/files/${name}-latin-${weight}-normal.woff2`)]:
                `assets/${name}-${weight}.woff2` });
    config.addPassthroughCopy({ "build/slides/*.{html,pdf}": "slides" });

    // The texts are rendered now, so all files that they link to are known.
    config.on("eleventy.after", () => {
        for (const page of [...diffs.pages(), ...[...linked].map(sourcePage)]) {
            fs.mkdirSync(path.join(out, path.dirname(page.place)), { recursive: true });
            fs.writeFileSync(path.join(out, page.place), frame({ ...shared, ...page }));
        }
        const found = markdown.sections.map((section, id) => ({ id, page: section.page, anchor: section.anchor || "",
            heading: section.heading, title: shared.order.find((page) => page.place === section.page).title,
            text: section.text.join(" ").replace(/\s+/g, " ") }));
        fs.writeFileSync(path.join(out, "assets/sections.js"), `window.sections = ${JSON.stringify(found)};\n`);
    });

    return { dir: { input: "docs/site", includes: "layouts", output: out }, templateFormats: ["md"], markdownTemplateEngine: false };
};
