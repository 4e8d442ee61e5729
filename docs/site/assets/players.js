// Players over recorded runs (tools/author/timelines.py), a training step as streams and ranks and the ring of step 6, and the
// film of a sharded training step.
(() => {
    const DRAWN = ["svg", "g", "rect", "path", "line", "text", "title", "defs", "pattern"];
    const make = (tag, attributes = {}, ...children) => {
        const element = DRAWN.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
        for (const [name, value] of Object.entries(attributes))
            if (name.startsWith("on"))
                element.addEventListener(name.slice(2), value);
            else
                element.setAttribute(name, value);
        element.append(...children);
        return element;
    };
    const write = (x, y, words, more = {}) => make("text", { x, y, ...more }, words);
    const middle = { "text-anchor": "middle" }, bold = { "font-weight": 600 };
    // The box of a drawing scrolls on narrow screens. Its words are in the slider, so screen readers skip it.
    const canvas = (label) => make("div", { class: "drawing", tabindex: 0, role: "group", "aria-label": `${label}; the slider below reads it` });
    const draw = (box, width, height, ...elements) =>
        box.replaceChildren(make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": true }, ...elements));
    const legend = (entries) => make("p", { class: "legend" }, ...entries.map(([words, colour, kind = ""]) =>
        make("span", {}, make("i", { class: kind, style: colour ? `background: ${colour}` : "" }), words)));

    // Buttons and a slider that choose one of `count()` places; `show` is called with the place, and returns its words.
    // `next` says how many milliseconds later the next place follows while it plays, or nothing at the end.
    function transport(label, count, show, next) {
        const slider = make("input", { type: "range", min: 0, value: 0, "aria-label": label, oninput: () => { stop(); move(); } });
        const words = make("p", { class: "words", "aria-live": "polite" });
        let timer = 0;
        const move = (to = Number(slider.value)) => {
            slider.max = count() - 1;
            slider.value = Math.max(0, Math.min(to, count() - 1));
            words.textContent = show(Number(slider.value));
            slider.setAttribute("aria-valuetext", words.textContent);
        };
        const stop = () => {
            clearTimeout(timer);
            timer = 0;
            play.textContent = "Play";
            words.setAttribute("aria-live", "polite");
        };
        const go = () => {
            const at = Number(slider.value), wait = next(at);
            if (wait === undefined)
                return stop();
            timer = setTimeout(() => { move(at + 1); go(); }, wait);
        };
        const toggle = () => {
            if (timer)
                return stop();
            play.textContent = "Pause";
            words.setAttribute("aria-live", "off"); // a screen reader could not keep pace
            if (Number(slider.value) === count() - 1)
                move(0);
            go();
        };
        const step = (by) => () => { stop(); move(Number(slider.value) + by); };
        const play = make("button", { onclick: toggle }, "Play");
        const back = make("button", { onclick: step(-1), "aria-label": "Step back" }, "\u2039");
        const on = make("button", { onclick: step(1), "aria-label": "Step forward" }, "\u203a");
        return { move, stop, words, element: make("div", { class: "transport" }, play, back, on, slider) };
    }

    // Colours and texts of trace_svg.py; white letters on green would be too pale.
    const KINDS = {
        forward: ["#56B4E9", "#000", "forward"], backward: ["#0072B2", "#fff", "backward"], update: ["#009E73", "#000", "update"],
        other: ["#CC79A7", "#000", "other computing"], copy: ["#F0E442", "#000", "copy"], collective: ["#E69F00", "#000", "collective"],
        late: ["url(#late)", "#000", "waits for another rank"], wait: ["#B8BEC5", "#000", "waits for an event"],
    };
    const HATCH = () => make("defs", {}, make("pattern",
        { id: "late", width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        make("rect", { width: 8, height: 8, fill: "#fff" }), make("rect", { width: 4, height: 8, fill: "#D55E00" })));
    const LEFT = 84, WIDTH = 760, ROW = 30, UNITS = 10000; // of a ms
    const ms = (units) => `${(units / UNITS).toFixed(3)} ms`;

    // The longest label that fits into a bar.
    const fitting = (words, width) => {
        const [first, number, kind] = words.split(" ");
        const short = /^\d+$/.test(number) ? [`${first} ${number}`, first[0].toUpperCase() + number]
            : [first, first.split("-").map((part) => part[0].toUpperCase()).join("")];
        return [words, ...short, ...kind || !number ? [] : [number]].find((text) => text.length * 7 + 6 < width);
    };

    // The GPUs in their nodes. `slow` is the number of a GPU or n and the number of a node, a colon, and a factor.
    const cluster = ({ nodes: [count, size], parts, slow = "" }) => make("p", { class: "cluster" }, ...Array.from({ length: count }, (_, node) => {
        const ranks = Array.from({ length: size }, (_, i) => node * size + i), [who] = slow.split(":"), isSlow = who === `n${node}`;
        const words = isSlow ? "slow network" : ranks.map(String).includes(who) ? `GPU ${who} is slow` : "";
        return make("span", { class: isSlow ? "slow" : "" }, `node ${node} `,
            ...ranks.map((rank) => make("i", { class: String(rank) === who ? "slow" : rank % parts ? "joined" : "" }, rank)), make("b", {}, words));
    }));

    function timeline(box, { controls, names, runs }) {
        let run, bounds, cursor, place; // place: of a time, in pixels
        let choice = controls.map((control) => control.start);
        const find = (setting) => runs.find((one) => one.setting.every((value, i) => value === setting[i]));
        const drawing = canvas("Timeline"), values = make("dl"), origin = make("p", { class: "origin" }), gpus = make("div");
        const isPipeline = "idle" in runs[0];
        const nameOf = ({ ranks: { 0: first, length } }) => isPipeline ? `stage ${first}`
            : length === 1 ? `rank ${first}` : `ranks ${first} to ${first + length - 1}`;

        const describe = ([stream, name, , length, a, b]) => {
            const [words, kind] = names[name];
            if (kind === "wait")
                return `stream ${stream} waits${b === undefined ? " for work" : ` for ${names[b][0]} of stream ${a}`} (${ms(length)})`;
            if (isPipeline)
                return `${words.replace(/ (?=\d)/, " of micro-batch ")} (${ms(length)})`;
            return `stream ${stream}: ${words} (${ms(length)}${b === undefined ? "" : `, of which it waits ${ms(a)} for rank ${b}`})`;
        };
        const at = (time) => run.lists.map((list) => `${nameOf(list)}: ` + (list.spans
            .filter(([, , begin, length]) => begin <= time && time < begin + length).map(describe).join("; ") || "idle")).join(". ");

        function drawSpan(group, list, span, y) {
            const [, name, begin, length, a, b] = span, [words, kind] = names[name];
            const said = `${nameOf(list)}, ${describe(span)}`;
            const bar = (from, to, top, height, colours) => group.append(make("rect", {
                x: place(from), y: top, width: Math.max(place(to) - place(from), 0.8), height, fill: KINDS[colours][0],
                "data-kind": colours, onmouseenter: () => { moves.words.textContent = said; } }, make("title", {}, said)));
            if (kind === "wait")
                return bar(begin, begin + length, y + ROW / 3, ROW / 3, kind);
            const late = kind === "collective" && b !== undefined ? a : 0;
            if (late)
                bar(begin, begin + late, y, ROW, "late");
            if (length > late)
                bar(begin + late, begin + length, y, ROW, kind);
            const left = place(begin + late), right = place(begin + length);
            const label = fitting(kind === "update" ? kind : words, right - left);
            if (label)
                group.append(write((left + right) / 2, y + 20, label, { ...middle, class: "label", style: `fill: ${KINDS[kind][1]}` }));
        }

        // Runs that differ only in controls without size have the same scale, so that a shorter step looks shorter.
        function drawRun() {
            const alike = runs.filter((one) => controls.every((control, i) => !control.size || one.setting[i] === choice[i]));
            const longest = Math.max(...alike.map((one) => one.step)), group = make("g");
            place = (time) => LEFT + time / UNITS / longest * (WIDTH - LEFT - 8);
            let y = 4;
            for (const list of run.lists) {
                if (!isPipeline) {
                    group.append(write(0, y + 14, nameOf(list), bold));
                    y += 22;
                }
                for (const stream of [...new Set(list.spans.map(([number]) => number))].sort()) {
                    group.append(write(8, y + 20, isPipeline ? nameOf(list) : `stream ${stream}`),
                        make("rect", { x: LEFT, y, width: place(run.step * UNITS) - LEFT, height: ROW, class: isPipeline ? "idle" : "row" }));
                    for (const span of list.spans.filter(([number]) => number === stream))
                        drawSpan(group, list, span, y);
                    y += ROW + 3;
                }
                y += isPipeline ? 0 : 8;
            }
            const tick = [20, 10, 5, 2, 1, 0.5, 0.2, 0.1].find((size) => longest / size >= 4) ?? 0.05;
            for (let i = 0; i * tick <= longest; i++) {
                const x = place(i * tick * UNITS);
                group.append(make("line", { x1: x, x2: x, y1: y, y2: y + 5, class: "axis" }), write(x, y + 20, String(+(i * tick).toFixed(2)), middle));
            }
            group.append(write(0, y + 20, "time in ms"));
            cursor = make("line", { y1: 0, y2: y + 5, class: "cursor" });
            draw(drawing, WIDTH, y + 26, HATCH(), group, cursor);
            const ends = run.lists.flatMap(({ spans }) => spans.flatMap(([, , begin, length]) => [begin, begin + length]));
            bounds = [...new Set(ends)].sort((a, b) => a - b);
        }

        const moves = transport("Time in the step", () => bounds.length, (number) => {
            cursor.setAttribute("transform", `translate(${place(bounds[number])})`);
            return `${ms(bounds[number])}: ${number === bounds.length - 1 ? "the step ends" : at(bounds[number])}`;
        }, (number) => number + 1 < bounds.length ? Math.max(90, (bounds[number + 1] - bounds[number]) / bounds.at(-1) * 9000) : undefined);

        const inputs = () => box.querySelectorAll("fieldset input");
        function show() {
            run = find(choice);
            const percent = (part, whole = 1) => `${(100 * part / (whole || 1)).toFixed(isPipeline ? 1 : 0)} %`;
            const memory = Object.entries(run.memory), all = memory.reduce((sum, [, size]) => sum + size, 0);
            const rows = {
                step: ["Step time", `${run.step.toFixed(3)} ms`],
                ...isPipeline ? {
                    idle: ["Bubble", `${percent(run.idle[0])} of the step; the formula above says ${percent(run.idle[1])}`],
                } : {
                    hidden: ["Collectives", `${run.collectives.toFixed(3)} ms, of which ${run.hidden.toFixed(3)} ms ` +
                        `(${percent(run.hidden, run.collectives)}) are hidden behind computing`],
                },
                memory: ["Memory of rank 0", `${all.toFixed(1)} MB: ${memory.map(([name, size]) => `${name} ${size}`).join(", ")}`],
            };
            values.replaceChildren(...Object.entries(rows).map(([key, [name, text]]) =>
                make("div", {}, make("dt", {}, name), make("dd", { "data-value": key }, text))));
            origin.replaceChildren("Training step 2 of ", make("code", {}, run.program),
                `. All times are modelled for H100. ${isPipeline ? "F3 is the forward pass of micro-batch 3. A stage is idle in the grey parts."
                    : "The times above are those of rank 0."}${run.parts > 1 ? ` The ${run.parts} GPUs of a group divide each matrix.` : ""}`);
            gpus.replaceChildren(cluster(run));
            moves.stop();
            drawRun();
            moves.move(0);
            for (const input of inputs()) {
                const i = Number(input.dataset.control);
                input.checked = choice[i] === input.value;
                input.disabled = !find(choice.with(i, input.value));
                input.parentElement.title = input.disabled ? "not recorded" : "";
            }
        }
        // If no run has been recorded with the values of the controls behind this one, others take their place.
        const choose = (i, value) => {
            choice = choice.with(i, value);
            choice = (find(choice) ?? runs.find((one) => one.setting.every((other, j) => j > i || other === choice[j]))).setting;
            show();
        };
        const radio = (i, value) => make("label", {}, make("input",
            { type: "radio", name: `control${i}`, value, "data-control": i, onchange: () => choose(i, value) }), make("span", {}, value));
        const fieldsets = controls.map(({ name, values: all }, i) =>
            make("fieldset", {}, make("legend", {}, name), ...all.map((value) => radio(i, value))));
        const used = Object.keys(KINDS).filter((kind) => names.some((name) => name[1] === (kind === "late" ? "collective" : kind)));
        box.append(make("div", { class: "controls" }, ...fieldsets), values, gpus, drawing, moves.element, moves.words,
            legend(used.map((kind) => [KINDS[kind][2], ...kind === "late" ? ["", kind] : [KINDS[kind][0]]])), origin);
        show();
    }

    // Four ranks at the corners. Each digit of a number is 1 if the vector of that rank is in the sum: rank r begins with 1 and r
    // zeros.
    function ring(box, { states }) {
        const ranks = states[0].length, CELL = 96, HEIGHT = 30, letters = "abcdefgh", drawing = canvas("Buffers");
        const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"], whole = Number("1".repeat(ranks));
        const before = (rank) => (rank + ranks - 1) % ranks;
        const x = (rank) => rank % 3 ? 246 : 18, y = (rank, chunk) => (rank < 2 ? 26 : 246) + chunk * (HEIGHT + 5);
        const HOPS = [["M118 93H224m-7 -5l7 5l-7 5", 171, 85], ["M294 166V218m-5 -7l5 7l5 -7", 324, 196],
            ["M224 313H118m7 -5l-7 5l7 5", 171, 305], ["M66 218V166m-5 7l5 -7l5 7", 96, 196]]; // from each rank, and the place of the words
        const digits = (value) => String(value).padStart(ranks, "0");

        // The chunks that the ranks have received in a round: those whose numbers differ from the round before.
        const received = (round) => round === 0 ? [] : states[round].flatMap((chunks, rank) => chunks.flatMap((value, chunk) => {
            const old = states[round - 1];
            return value === old[rank][chunk] ? [] : [{ rank, chunk, value, old: old[rank][chunk], sent: old[before(rank)][chunk] }];
        }));

        function drawCell(group, rank, chunk, value, isNew) {
            const more = isNew ? " new" : value === whole ? " whole" : "";
            group.append(write(x(rank) - 16, y(rank, chunk) + 19, letters[chunk]),
                make("rect", { x: x(rank), y: y(rank, chunk), width: CELL, height: HEIGHT, class: `cell${more}` }));
            COLOURS.forEach((fill, part) => {
                if (Math.floor(value / 10 ** part) % 10)
                    group.append(make("rect", { x: x(rank) + (ranks - 1 - part) * CELL / ranks + 2, y: y(rank, chunk) + HEIGHT - 7,
                        width: CELL / ranks - 4, height: 5, fill }));
            });
            group.append(write(x(rank) + CELL / 2, y(rank, chunk) + 17, digits(value), { ...middle, class: "number" }));
        }

        const sum = ({ value, old, sent }) => value === old + sent ? `adds it (${old} + ${sent} = ${value})` : `keeps it (${value})`;
        const moves = transport("Round of the ring", () => states.length, (round) => {
            const group = make("g"), hops = received(round);
            states[round].forEach((chunks, rank) => {
                group.append(write(x(rank) + CELL / 2, y(rank, 0) - 9, `rank ${rank}`, { ...middle, ...bold }));
                chunks.forEach((value, chunk) =>
                    drawCell(group, rank, chunk, value, hops.some((hop) => hop.rank === rank && hop.chunk === chunk)));
            });
            for (const { rank, chunk, sent } of hops) {
                const [path, left, top] = HOPS[before(rank)];
                group.append(make("path", { d: path, class: "hop" }),
                    write(left, top, `${letters[chunk]} ${digits(sent)}`, { ...middle, class: "sent" }));
            }
            draw(drawing, 352, 388, group);
            if (round === 0)
                return "Start: in each chunk, rank 0 has 1, rank 1 has 10, and so on. A digit 1 in a number says that the vector of " +
                    "that rank is in the sum.";
            return `Round ${round} of ${states.length - 1}: ` + hops.map((hop) => `rank ${hop.rank} receives chunk ` +
                `${letters[hop.chunk]} from rank ${before(hop.rank)} and ${sum(hop)}`).join("; ") + ".";
        }, (round) => round + 1 < states.length ? 1800 : undefined);

        box.append(drawing, moves.element, moves.words, legend(COLOURS.map((colour, rank) => [`from rank ${rank}`, colour])),
            make("p", { class: "origin" }, "The numbers are those of the buffers in a run of ", make("code", {}, "ring"),
                ` with ${ranks} ranks.`));
        moves.move(0);
    }

    // Frames of a step of FSDP: what two ranks hold of layers A and B, and how much memory this is.
    function film(box, { kinds, frames }) {
        const drawing = canvas("Memory of two ranks"), WHOLE = 8, UNIT = 8, BASE = 214, WIDTH = 352;
        const SAID = { start: "Each rank has one half of both layers.", gather: "All-gather: each rank sends its half, so both have the whole layer.",
            forward: "Both ranks compute the layer, each with its own samples.", free: "Both ranks free the half that is not theirs.",
            backward: "Both ranks compute the gradients of the layer, each of its own samples, in place of the gathered parameters.",
            scatter: "Reduce-scatter: each rank gets the sum of its half, and frees the rest.", update: "Each rank updates its halves." };
        // The halves that a rank holds, with their kind, column and row.
        const held = ([name, buffer, summed], rank) => [
            ...["A", "B"].map((layer, row) => [layer + rank, name === "update" ? "updated" : "half", 0, row]),
            ...[...summed].map((layer) => [`g${layer}${rank}`, "sum", 1, layer === "A" ? 0 : 1]),
            ...buffer ? [0, 1].map((row) => [buffer + row, buffer[0] === "g" ? "own" : "gathered", 2, row]) : []];
        const moves = transport("Frame of the step", () => frames.length, (number) => {
            const group = make("g"), [work] = frames[number][0].split(" ");
            for (const rank of [0, 1]) {
                const left = 2 + rank * 186;
                group.append(write(left + 81, 16, `rank ${rank}`, { ...middle, ...bold }),
                    make("rect", { x: left, y: 24, width: 162, height: 92, rx: 6, class: "cell" }));
                for (const [words, kind, column, row] of held(frames[number], rank))
                    group.append(make("rect", { x: left + 8 + column * 51, y: 32 + row * 40, width: 46, height: 36, rx: 4, fill: kinds[kind][0] }),
                        write(left + 31 + column * 51, 55 + row * 40, words, { ...middle, class: "half", style: `fill: ${kinds[kind][1]}` }));
            }
            if (work === "gather" || work === "scatter")
                group.append(make("path", { d: "M167 70H185m-6 -5l6 5l-6 5M167 70m6 -5l-6 5l6 5", class: "hop" }));
            frames.forEach((frame, i) => { // a column for each frame
                const x = i * WIDTH / frames.length, all = held(frame, 0);
                all.forEach(([, kind], k) => group.append(make("rect", { x: x + 2, y: BASE - (k + 1) * UNIT, width: 20, height: UNIT - 1,
                    fill: kinds[kind][0], opacity: i === number ? 1 : 0.4 })));
            });
            group.append(make("line", { x1: 0, x2: WIDTH, y1: BASE - WHOLE * UNIT, y2: BASE - WHOLE * UNIT, class: "axis", "stroke-dasharray": 5 }),
                write(0, BASE - WHOLE * UNIT - 6, "memory of a rank; dashed: without sharding"));
            draw(drawing, WIDTH, BASE + 4, group);
            return `${number + 1} of ${frames.length}, ${frames[number][0]}. ${SAID[work]} A rank holds ${held(frames[number], 0).length} ` +
                `halves; without sharding, it would hold ${WHOLE}: all parameters and gradients.`;
        }, (number) => number + 1 < frames.length ? 1800 : undefined);
        box.append(drawing, moves.element, moves.words, legend(Object.values(kinds).map(([colour, , words]) => [words, colour])));
        moves.move(0);
    }

    for (const box of document.querySelectorAll(".player"))
        ({ timeline, ring, film })[box.dataset.kind](box, JSON.parse(box.querySelector("script").textContent));
})();
