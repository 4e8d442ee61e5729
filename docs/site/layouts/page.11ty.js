// The frame of every page: header with search, navigation, content, the sections of the page, next and previous.
const { address, escape } = require("../sources.js");
const { sections } = require("../markdown.js");

const repository = process.env.GITHUB_REPOSITORY && `${process.env.GITHUB_SERVER_URL}/${process.env.GITHUB_REPOSITORY}`;

function navigation(groups, here, to) {
    const has = (group) => group.pages.some((page) => page.place === here) || (group.groups || []).some(has);
    const one = (group) => `<details${has(group) || group === groups[0] ? " open" : ""}><summary>${group.title}</summary><ul>` +
        group.pages.map(({ place, short }) =>
            `<li><a href="${to(place)}"${place === here ? ' aria-current="page"' : ""}>${short}</a></li>`).join("") +
        `</ul>${(group.groups || []).map(one).join("")}</details>`;
    return groups.map(one).join("\n");
}

function besides(links, label) {
    return links.length ? `<nav class="beside" aria-label="${label}"><p>${label}</p><ul>${links.map(({ href, name, level }) =>
        `<li${level === 3 ? ' class="inner"' : ""}><a href="${href}">${name}</a></li>`).join("")}</ul></nav>` : "";
}

module.exports = ({ content, place, title, groups, order, siblings, kind }) => {
    const to = (target) => address(place, target), root = to("index.html").replace(/index\.html$/, "");
    const at = order.findIndex((page) => page.place === place), [before, after] = [order[at - 1], at < 0 ? undefined : order[at + 1]];
    const here = sections.filter((section) => section.page === place && section.anchor && section.level < 4);
    const step = (page, rel, words) => page
        ? `<a rel="${rel}" href="${to(page.place)}"><small>${words}</small>${page.title}</a>` : "<span></span>";
    return `<!DOCTYPE html>
<html lang="en" data-root="${root}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${place === "index.html" ? title : `${escape(title)} - Distributed training in C`}</title>
<link rel="stylesheet" href="${root}assets/site.css">
<link rel="icon" href="data:,">
<script src="${root}assets/theme.js"></script>
</head>
<body class="${kind ?? ""}">
<a class="skip" href="#content">Skip to the text</a>
<header>
<button id="menu" aria-expanded="false" aria-controls="pages">Menu</button>
<a class="home" href="${root}index.html">Distributed training in C</a>
<div class="search" role="search">
<input id="search" type="search" placeholder="Search ( / )" aria-label="Search" autocomplete="off" role="combobox"
 aria-expanded="false" aria-controls="found" aria-autocomplete="list">
<ul id="found" role="listbox" aria-label="Pages found" hidden></ul>
</div>
${repository ? `<a class="repository" href="${repository}">Repository</a>` : ""}
<button id="theme" aria-label="Switch between light and dark">&#9680;</button>
</header>
<div class="columns">
<nav id="pages" aria-label="Pages">
${navigation(groups, place, to)}
<p><a href="${root}diffs/index.html">What each step changes</a></p>
</nav>
<main id="content">
${content}
<nav class="steps" aria-label="Next and previous page">${step(before, "prev", "Previous")}${step(after, "next", "Next")}</nav>
</main>
${siblings ? besides(siblings, "Files of this folder")
        : besides(here.map(({ anchor, heading, level }) => ({ href: `#${anchor}`, name: escape(heading), level })), "On this page")}
</div>
<script src="${root}assets/site.js" defer></script>
</body>
</html>
`;
};
