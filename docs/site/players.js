// Where the players stand: after the paragraph or the output of a page that contains these words. A player in place of a
// picture shows that picture where scripts do not run.
const fs = require("node:fs");
const path = require("node:path").posix;
const { address, placeOf } = require("./sources.js");

const PLACES = {
    "02_multigpu_fork/README.md": { at: "overlap.svg", kind: "timeline", replaces: true },
    "04_multinode/README.md": { at: "rank 3 is the straggler", kind: "timeline" },
    "05_fsdp/README.md": { at: "prefetch.svg", kind: "timeline", replaces: true,
        before: { at: "fsdp.svg", kind: "film", replaces: true, data: "docs/figures/fsdp.json" } },
    "06_allreduce_demo/README.md": { at: "ring.svg", kind: "ring", replaces: true },
    "07_large_models/README.md": { at: "If everything fits on one GPU, use", kind: "timeline" },
    "08_pipeline/README.md": { at: "pipeline-timeline.svg", kind: "timeline" },
    "09_tensor/README.md": { at: "Tensor parallelism has no bubble", kind: "timeline" },
};

exports.addPlayer = (state, source, place = PLACES[source]) => {
    const { tokens } = state;
    if (!place)
        return;
    exports.addPlayer(state, source, place.before ?? null);
    const i = tokens.findIndex((token) => token.content.includes(place.at));
    if (i < 0)
        throw new Error(`docs/site/players.js: ${source} no longer has: ${place.at}`);
    const html = (content) => Object.assign(new state.Token("html_block", "", 0), { content });
    const data = fs.readFileSync(place.data ?? `docs/site/timelines/${path.dirname(source)}.json`, "utf8");
    const script = place.data ? "" : `<script src="${address(placeOf(source), "assets/players.js")}" defer></script>`;
    const player = html(`${place.replaces ? "</noscript>" : ""}<div class="player" data-kind="${place.kind}">` +
        `<script type="application/json">${data}</script></div>${script}\n`);
    tokens.splice(i + (tokens[i].type === "inline" ? 2 : 1), 0, player); // a paragraph ends after its text
    if (place.replaces)
        tokens.splice(i - 1, 0, html("<noscript>"));
};
