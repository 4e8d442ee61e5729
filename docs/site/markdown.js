// Adapts markdown-it to the texts of the course: links between files of the repository become links between pages, headings get
// the anchors of GitHub, comments vanish, and quoted code gets the numbers of its lines. Collects the sections for the search.
const path = require("node:path").posix;
const { files, placeOf, address, escape, highlight, languageOf, numbered, definition, linesOf } = require("./sources.js");
const { addPlayer } = require("./players.js");

const sections = []; // { page, anchor, title, heading, text }

// The anchor that GitHub gives to a heading; `seen` counts those of the page.
function anchorOf(text, seen) {
    const anchor = text.trim().toLowerCase().replace(/[^\p{L}\p{N}\p{M} _-]/gu, "").replace(/ /g, "-");
    seen[anchor] = (seen[anchor] ?? -1) + 1;
    return seen[anchor] ? `${anchor}-${seen[anchor]}` : anchor;
}

// The address of a link in a text, as an address on the site. A link to no file of the repository is an error.
function resolve(href, source) {
    if (/^(https?:|mailto:|#)/.test(href))
        return href;
    const [file, anchor] = href.split("#");
    const place = placeOf(path.join(path.dirname(source), file));
    if (!place)
        throw new Error(`${source}: there is no ${file}`);
    return address(placeOf(source), place) + (anchor ? `#${anchor}` : "");
}

// Where the name in backquotes stands: a file, the difference of two steps, or a function of this step.
function placeOfName(name, source) {
    const folder = path.dirname(source);
    const difference = name.match(/^make (diff\d\d)\b/);
    if (difference)
        return `diffs/${difference[1]}.html`;
    const file = [path.join(folder, name), name].find((candidate) => files.has(candidate));
    if (file)
        return placeOf(file);
    const word = name.match(/^(?!nccl)([a-z]\w*)(\(\))?$/);
    if (!word || !/^0\d_/.test(folder))
        return undefined;
    for (const other of [...files].filter((one) => path.dirname(one) === folder && one.endsWith(".c"))) {
        const line = definition(other, word[1]);
        if (line)
            return `${placeOf(other)}#L${line}`;
    }
}

const plain = (inline) => inline.children.map((token) =>
    token.type === "softbreak" ? " " : token.type === "html_inline" ? "" : token.content).join("");

function adaptInline(tokens, source, md) {
    let inLink = 0;
    for (const token of tokens) {
        inLink += token.type === "link_open" ? 1 : token.type === "link_close" ? -1 : 0;
        if (token.type === "link_open")
            token.attrSet("href", resolve(token.attrGet("href"), source));
        if (token.type === "image")
            token.attrSet("src", resolve(token.attrGet("src"), source));
        if (token.type === "html_inline" && /^<!--|"\.\.\/\.\.\//.test(token.content)) // the badge of GitHub, too
            token.content = "";
        const place = token.type === "code_inline" && !inLink && placeOfName(token.content, source);
        if (place && place !== placeOf(source))
            token.meta = address(placeOf(source), place);
    }
}

function adapt(state) {
    const { env: { source }, tokens } = state;
    const seen = {};
    let section = { page: placeOf(source), text: [] }, quoted = "";
    sections.push(section);
    tokens.forEach((token, i) => {
        if (token.type === "html_block" && token.content.startsWith("<!--")) {
            quoted = (token.content.match(/^<!-- (?:code|diff) (.*?) *-->/) || [])[1];
            token.content = "";
        } else if (token.type === "fence") {
            token.meta = { quoted, source };
            quoted = "";
            section.text.push(token.content);
        } else if (token.type === "html_block") {
            section.text.push(token.content.replace(/<[^>]*>/g, " ").replace(/&lt;/g, "<").replace(/&gt;/g, ">").replace(/&amp;/g, "&"));
        } else if (token.type === "inline") {
            adaptInline(token.children, source, state.md);
            const opening = tokens[i - 1], term = source === "docs/glossary.md" && token.content.match(/^\*\*(.*?)\*\*/);
            if (opening.type === "heading_open") {
                const heading = plain(token), anchor = anchorOf(heading, seen);
                opening.attrSet("id", anchor);
                if (opening.tag !== "h1") {
                    token.children.push(Object.assign(new state.Token("html_inline", "", 0),
                        { content: ` <a class="anchor" href="#${anchor}" aria-label="link to this section">#</a>` }));
                    section = { page: section.page, anchor, text: [] };
                    sections.push(section);
                }
                section.heading = heading;
                section.level = Number(opening.tag[1]);
            } else if (term) { // the search finds each entry
                const anchor = anchorOf(term[1], seen);
                tokens[i - 2].attrSet("id", anchor);
                sections.push({ page: section.page, anchor, heading: term[1], level: 9, text: [plain(token)] });
            } else {
                section.text.push(plain(token));
            }
        }
    });
    addPlayer(state, source);
}

function renderFence(tokens, i) {
    const { content, info, meta } = tokens[i];
    const text = content.replace(/\n$/, ""), [file, word] = (meta.quoted || "").split(" ");
    if (file && files.has(file)) {
        const place = address(placeOf(meta.source), placeOf(file));
        const numbers = linesOf(text.split("\n"), file, word === "from" ? "" : word);
        const first = numbers.find((n) => n);
        return `<figure class="quote"><figcaption><a href="${place}${first ? `#L${first}` : ""}">${file}</a></figcaption>` +
            `${numbered(text, languageOf(file), numbers, place)}</figure>`;
    }
    const caption = /^\d\d$/.test(file) ? `<figcaption><a href="${address(placeOf(meta.source), `diffs/diff${file}.html`)}">` +
        `make diff${file} F=${word}</a></figcaption>` : "";
    return `<figure class="${info === "output" ? "output" : "quote"}">${caption}<div class="code"><pre tabindex="0">` +
        `<code>${highlight(text, info)}\n</code></pre></div></figure>`;
}

exports.sections = sections;
exports.setUp = (md) => {
    md.core.ruler.push("course", adapt);
    md.renderer.rules.fence = renderFence;
    md.renderer.rules.table_open = () => '<div class="table" tabindex="0"><table>\n';
    md.renderer.rules.table_close = () => "</table></div>\n";
    md.renderer.rules.code_inline = (tokens, i) => {
        const code = `<code>${escape(tokens[i].content)}</code>`;
        return tokens[i].meta ? `<a class="name" href="${tokens[i].meta}">${code}</a>` : code;
    };
    const image = md.renderer.rules.image;
    md.renderer.rules.image = (tokens, i, options, env, self) => {
        tokens[i].attrSet("loading", "lazy");
        return `<span class="picture" tabindex="0">${image(tokens, i, options, env, self)}</span>`;
    };
};
