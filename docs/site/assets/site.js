// The menu of narrow screens, the search, and the buttons that copy commands.
(() => {
    const root = document.documentElement.dataset.root, $ = (id) => document.getElementById(id);

    $("menu").addEventListener("click", () => {
        const open = document.body.classList.toggle("menu");
        $("menu").setAttribute("aria-expanded", open);
    });
    const here = document.querySelector("#pages [aria-current]");
    if (here)
        $("pages").scrollTop = here.offsetTop - $("pages").clientHeight / 2;

    // The sections of all pages come as a script, because a page on a disk may not fetch files.
    let index;
    const make = (tag, properties) => Object.assign(document.createElement(tag), properties);
    const load = (name) => new Promise((done, failed) =>
        document.head.append(make("script", { src: `${root}assets/${name}`, onload: done, onerror: failed })));
    const ready = () => index ??= (async () => {
        await Promise.all([load("minisearch.js"), load("sections.js")]);
        const fuzzy = (word) => word.length > 5 ? 0.15 : 0;
        const made = new MiniSearch({ fields: ["heading", "title", "text"], storeFields: ["page", "anchor", "heading", "title", "text"],
            searchOptions: { boost: { heading: 4, title: 2 }, prefix: true, combineWith: "AND", fuzzy } });
        made.addAll(window.sections);
        return made;
    })();

    // Sections with the words side by side come first, then the beginnings of pages, and exercises last.
    const found = (words) => {
        const said = (text) => text.toLowerCase().includes(words.toLowerCase());
        const boost = (id) => {
            const { heading, text, page, anchor } = window.sections[id];
            return (said(heading) ? 4 : said(text) ? 2 : 1) * (page.startsWith("exercises/") ? 0.2 : anchor ? 1 : 2);
        };
        return index.then((made) => made.search(words, { boostDocument: boost }).slice(0, 12));
    };

    // The words of the text around the first word that was found.
    const excerpt = ({ text, terms }) => {
        const any = terms.map((term) => term.replace(/\W/g, "\\$&")).join("|");
        const begin = text.lastIndexOf(" ", Math.max(0, text.toLowerCase().search(any) - 50)) + 1;
        return (begin ? "... " : "") + text.slice(begin, begin + 140);
    };
    const input = $("search"), list = $("found");
    let chosen = -1;
    const choose = (number) => {
        const items = [...list.children];
        chosen = items.length ? (number + items.length) % items.length : -1;
        items.forEach((item, i) => item.setAttribute("aria-selected", i === chosen));
        items[chosen]?.scrollIntoView({ block: "nearest" });
        input.setAttribute("aria-activedescendant", items[chosen]?.id ?? "");
    };
    const show = (open) => { list.hidden = !open; input.setAttribute("aria-expanded", open); };
    const search = async () => {
        const words = input.value.trim(), results = words ? await ready().then(() => found(words)) : [];
        if (words !== input.value.trim())
            return; // the reader has typed on
        list.replaceChildren(...results.map((result, i) => {
            const item = make("li", { id: `found${i}`, role: "option" });
            const link = make("a", { href: `${root}${result.page}${result.anchor && `#${result.anchor}`}`, tabIndex: -1 });
            link.append(make("b", { textContent: result.anchor ? `${result.heading} - ${result.title}` : result.title }), excerpt(result));
            item.append(link);
            return item;
        }));
        if (words && !results.length)
            list.append(make("li", { textContent: "Nothing found" }));
        show(words !== "");
        choose(0);
    };
    input.addEventListener("focus", ready);
    input.addEventListener("input", search);
    input.addEventListener("keydown", (event) => {
        if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
            event.preventDefault();
        } else if (event.key === "Enter") {
            list.children[chosen]?.firstChild.click?.();
            show(false);
        } else if (event.key === "Escape") {
            show(false);
        }
    });
    document.addEventListener("click", (event) => event.target.closest(".search") || show(false));
    document.addEventListener("keydown", (event) => {
        if (event.key === "/" && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) {
            event.preventDefault();
            input.focus();
        }
    });

    for (const block of document.querySelectorAll("figure.quote .code")) {
        const button = make("button", { textContent: "Copy", className: "copy" });
        button.addEventListener("click", async () => {
            await navigator.clipboard.writeText(block.querySelector("code").textContent);
            button.textContent = "Copied";
            setTimeout(() => { button.textContent = "Copy"; }, 1500);
        });
        if (navigator.clipboard)
            block.after(button);
    }
})();
