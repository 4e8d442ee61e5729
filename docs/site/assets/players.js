// Two players over recorded runs (tools/timelines.py): a training step as streams and ranks, and the ring of step 6.
(() => {
    const make = (tag, attributes = {}, ...children) => {
        const drawn = /^(svg|g|rect|path|line|text|title|defs|pattern)$/.test(tag);
        const element = drawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
        for (const [name, value] of Object.entries(attributes))
            if (name.startsWith("on"))
                element.addEventListener(name.slice(2), value);
            else
                element.setAttribute(name, value);
        element.append(...children);
        return element;
    };

    // Buttons and a slider that choose one of `count()` places; `show` is called with the place, and returns its words.
    // `next` says which place is shown how many milliseconds later while it plays, or nothing at the end.
    function transport(label, count, show, next) {
        const slider = make("input", { type: "range", min: 0, value: 0, "aria-label": label, oninput: () => { stop(); move(); } });
        const words = make("p", { class: "words", "aria-live": "polite" });
        let timer = 0;
        const move = (to = Number(slider.value)) => {
            slider.max = count() - 1;
            slider.value = Math.max(0, Math.min(to, count() - 1));
            const said = show(Number(slider.value));
            words.textContent = said;
            slider.setAttribute("aria-valuetext", said);
        };
        const stop = () => { clearTimeout(timer); timer = 0; play.textContent = "Play"; words.setAttribute("aria-live", "polite"); };
        const go = () => {
            const at = Number(slider.value), wait = next(at);
            if (wait === undefined)
                return stop();
            timer = setTimeout(() => { move(at + 1); go(); }, wait);
        };
        const step = (by) => () => { stop(); move(Number(slider.value) + by); };
        const play = make("button", { onclick: () => {
            if (timer)
                return stop();
            play.textContent = "Pause";
            words.setAttribute("aria-live", "off"); // a screen reader could not keep pace
            if (Number(slider.value) === count() - 1)
                move(0);
            go();
        } }, "Play");
        return { move, stop, words, element: make("div", { class: "transport" }, play,
            make("button", { onclick: step(-1), "aria-label": "Step back" }, "\u2039"),
            make("button", { onclick: step(1), "aria-label": "Step forward" }, "\u203a"), slider) };
    }

    // Colours and texts of trace_svg.py.
    const KINDS = { forward: ["#56B4E9", "#000", "forward"], backward: ["#0072B2", "#fff", "backward"], update: ["#009E73", "#000", "update"],
        other: ["#CC79A7", "#000", "other computing"], copy: ["#F0E442", "#000", "copy"], collective: ["#E69F00", "#000", "collective"],
        late: ["url(#late)", "#000", "waits for another rank"], wait: ["#B8BEC5", "#000", "waits for an event"] };
    const LEFT = 84, WIDTH = 760, ROW = 30, UNITS = 10000; // of a ms
    const ms = (units) => `${(units / UNITS).toFixed(3)} ms`;

    function timeline(box, data) {
        let run, bounds, cursor, choice = data.controls.map((control) => control.start);
        const find = (setting) => data.runs.find((one) => one.setting.every((value, i) => value === setting[i]));
        const drawing = make("div", { class: "drawing", tabindex: 0, role: "group", "aria-label": "Timeline; the slider below reads it" });
        const values = make("dl"), source = make("p", { class: "origin" });

        const ranksOf = ({ ranks }) => ranks.length === 1 ? `rank ${ranks[0]}` : `ranks ${ranks[0]} to ${ranks.at(-1)}`;
        const describe = ([stream, name, , length, a, b]) => {
            const [words, kind] = data.names[name];
            if (kind === "wait")
                return `stream ${stream} waits${b === undefined ? " for work" : ` for ${data.names[b][0]} of stream ${a}`} (${ms(length)})`;
            const late = b === undefined ? "" : `, of which it waits ${ms(a)} for rank ${b}`;
            return `stream ${stream}: ${words} (${ms(length)}${late})`;
        };
        const at = (time) => run.lists.map((list) => `${ranksOf(list)}: ` + (list.spans.filter(([, , begin, length]) =>
            begin <= time && time < begin + length).map(describe).join("; ") || "idle")).join(". ");

        const shortest = (words, width) => {
            const parts = words.split(" "), short = /^\d+$/.test(parts[1]) ? [parts.slice(0, 2).join(" "), parts[0][0].toUpperCase() + parts[1]]
                : [parts[0], parts[0].split("-").map((part) => part[0].toUpperCase()).join("")];
            return [words, ...short].find((text) => text.length * 7 + 6 < width);
        };
        const bar = (group, x, y, width, height, kind, words) => {
            const rect = make("rect", { x, y, width: Math.max(width, 0.8), height, fill: KINDS[kind][0], "data-kind": kind }, make("title", {}, words));
            rect.addEventListener("mouseenter", () => { moves.words.textContent = words; });
            group.append(rect);
        };

        function draw() {
            const scale = Math.max(...data.runs.filter((one) => data.controls.every((control, i) => !control.size || one.setting[i] === choice[i]))
                .map((one) => one.step)) * UNITS;
            const x = (time) => LEFT + time / scale * (WIDTH - LEFT - 8);
            const group = make("g"), end = run.step * UNITS;
            let y = 4;
            for (const list of run.lists) {
                group.append(make("text", { x: 0, y: y + 14, "font-weight": 600 }, ranksOf(list)));
                y += 22;
                for (const stream of [...new Set(list.spans.map(([number]) => number))].sort()) {
                    group.append(make("text", { x: 8, y: y + 20 }, `stream ${stream}`),
                        make("rect", { x: LEFT, y, width: x(end) - LEFT, height: ROW, class: "row" }));
                    for (const span of list.spans.filter(([number]) => number === stream)) {
                        const [, name, begin, length, a, b] = span, [words, kind] = data.names[name], said = `${ranksOf(list)}, ${describe(span)}`;
                        const late = kind === "collective" && b !== undefined ? a : 0, left = x(begin + late), width = x(begin + length) - left;
                        if (late)
                            bar(group, x(begin), y, x(begin + late) - x(begin), ROW, "late", said);
                        if (kind === "wait")
                            bar(group, left, y + ROW / 3, width, ROW / 3, kind, said);
                        else if (length > late)
                            bar(group, left, y, width, ROW, kind, said);
                        const text = kind !== "wait" && shortest(kind === "update" ? kind : words, width);
                        if (text)
                            group.append(make("text", { x: left + width / 2, y: y + 20, "text-anchor": "middle", class: "label", style: `fill: ${KINDS[kind][1]}` }, text));
                    }
                    y += ROW + 3;
                }
                y += 8;
            }
            const tick = [5, 2, 1, 0.5, 0.2, 0.1, 0.05].find((size) => scale / UNITS / size >= 4) ?? 0.05;
            for (let time = 0; time * UNITS <= scale; time += tick)
                group.append(make("line", { x1: x(time * UNITS), x2: x(time * UNITS), y1: y, y2: y + 5, class: "axis" }),
                    make("text", { x: x(time * UNITS), y: y + 20, "text-anchor": "middle" }, String(+time.toFixed(2))));
            group.append(make("text", { x: 0, y: y + 20 }, "time in ms"));
            cursor = make("line", { y1: 0, y2: y + 5, class: "cursor" });
            drawing.replaceChildren(make("svg", { viewBox: `0 0 ${WIDTH} ${y + 26}`, width: WIDTH, height: y + 26, "aria-hidden": true },
                make("defs", {}, make("pattern", { id: "late", width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
                    make("rect", { width: 8, height: 8, fill: "#fff" }), make("rect", { width: 4, height: 8, fill: "#D55E00" }))), group, cursor));
            bounds = [...new Set(run.lists.flatMap((list) => list.spans.flatMap(([, , begin, length]) => [begin, begin + length])))].sort((a, b) => a - b);
            moves.x = x;
        }

        const moves = transport("Time in the step", () => bounds.length, (place) => {
            const position = moves.x?.(bounds[place]) ?? 0;
            cursor?.setAttribute("transform", `translate(${position})`);
            return place === bounds.length - 1 ? `${ms(bounds[place])}: the step ends` : `${ms(bounds[place])}: ${at(bounds[place])}`;
        }, (place) => place + 1 < bounds.length ? Math.max(90, (bounds[place + 1] - bounds[place]) / bounds.at(-1) * 9000) : undefined);

        function choose() {
            run = find(choice);
            const share = run.collectives ? Math.round(100 * run.hidden / run.collectives) : 0;
            const memory = Object.entries(run.memory), all = memory.reduce((sum, [, size]) => sum + size, 0);
            values.replaceChildren(...[["Step time", `${run.step.toFixed(3)} ms`, "step"],
                ["Collectives", `${run.collectives.toFixed(3)} ms, of which ${run.hidden.toFixed(3)} ms (${share} %) are hidden behind computing`, "hidden"],
                ["Memory of a rank", `${all.toFixed(1)} MB: ${memory.map(([name, size]) => `${name} ${size}`).join(", ")}`, "memory"],
            ].map(([name, text, key]) => make("div", {}, make("dt", {}, name), make("dd", { "data-value": key }, text))));
            source.replaceChildren("Training step 2 of ", make("code", {}, run.program), ` on ${run.gpus}. All times are modelled for H100. The times above are those of rank 0.`);
            moves.stop();
            draw();
            moves.move(0);
            box.querySelectorAll("fieldset input").forEach((input) => {
                const setting = choice.map((value, i) => String(i) === input.dataset.control ? input.value : value);
                input.disabled = !find(setting);
                input.parentElement.title = input.disabled ? "not recorded" : "";
            });
        }
        const controls = data.controls.map((control, i) => make("fieldset", {}, make("legend", {}, control.name), ...control.values.map((value) =>
            make("label", {}, make("input", { type: "radio", name: `control${i}`, value, "data-control": i, ...(value === choice[i] ? { checked: "" } : {}), onchange: () => {
                choice[i] = value;
                choice = find(choice) ? choice : data.runs.find((one) => one.setting.slice(0, i + 1).every((other, j) => other === choice[j])).setting.slice();
                box.querySelectorAll("fieldset input").forEach((input) => { input.checked = choice[input.dataset.control] === input.value; });
                choose();
            } }), make("span", {}, value)))));
        const used = ["forward", "backward", "update", "other", "collective", "late", "wait"];
        const legend = make("p", { class: "legend" }, ...used.map((kind) => make("span", {}, make("i", { class: kind, style: kind === "late" ? "" :
            `background: ${KINDS[kind][0]}` }), KINDS[kind][2])));
        box.append(make("div", { class: "controls" }, ...controls), values, drawing, moves.element, moves.words, legend, source);
        choose();
    }

    // Each digit of a number is 1 if the vector of that rank is in the sum: rank r begins with 1 and r zeros.
    function ring(box, { states }) {
        const ranks = states[0].length, CELL = 92, HEIGHT = 34, letters = "abcdefgh", drawing = make("div", { class: "drawing", tabindex: 0, role: "group", "aria-label": "Buffers; the slider below reads them" });
        const before = (rank) => (rank + ranks - 1) % ranks;
        const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"];
        const x = (rank) => 70 + rank * 172, y = (chunk) => 40 + chunk * (HEIGHT + 6);
        const changes = (place) => place ? states[place].flatMap((chunks, rank) => chunks.flatMap((value, chunk) =>
            value === states[place - 1][rank][chunk] ? [] : [{ rank, chunk, value, old: states[place - 1][rank][chunk], sent: states[place - 1][before(rank)][chunk] }])) : [];
        const cell = (group, rank, chunk, value, more) => {
            group.append(make("rect", { x: x(rank), y: y(chunk), width: CELL, height: HEIGHT, class: `cell${more}` }));
            for (let part = 0; part < ranks; part++)
                if (Math.floor(value / 10 ** part) % 10)
                    group.append(make("rect", { x: x(rank) + part * CELL / ranks + 2, y: y(chunk) + HEIGHT - 8, width: CELL / ranks - 4, height: 5, fill: COLOURS[part] }));
            group.append(make("text", { x: x(rank) + CELL / 2, y: y(chunk) + 19, "text-anchor": "middle", class: "number" }, String(value).padStart(ranks, "0")));
        };
        const moves = transport("Round of the ring", () => states.length, (place) => {
            const group = make("g"), changed = changes(place);
            for (let chunk = 0; chunk < ranks; chunk++)
                group.append(make("text", { x: 0, y: y(chunk) + 22 }, `chunk ${letters[chunk]}`));
            for (let rank = 0; rank < ranks; rank++) {
                group.append(make("text", { x: x(rank) + CELL / 2, y: 22, "text-anchor": "middle", "font-weight": 600 }, `rank ${rank}`));
                states[place][rank].forEach((value, chunk) =>
                    cell(group, rank, chunk, value, changed.some((one) => one.rank === rank && one.chunk === chunk) ? " new" : value === 11111111 % 10 ** ranks ? " whole" : ""));
            }
            for (const { rank, chunk, sent } of changed) {
                const left = rank ? x(rank) - 80 + CELL / 2 - 40 : x(ranks - 1) + CELL + 6, middle = y(chunk) + HEIGHT / 2;
                const from = rank ? x(rank) - 76 : left, to = rank ? x(rank) - 4 : left + 60;
                group.append(make("path", { d: `M${from} ${middle}H${to}m-7 -5l7 5l-7 5`, class: "hop" }),
                    make("text", { x: (from + to) / 2, y: middle - 6, "text-anchor": "middle", class: "sent" }, String(sent).padStart(ranks, "0")));
            }
            const width = x(ranks - 1) + CELL + 74, height = y(ranks) + 4;
            drawing.replaceChildren(make("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "aria-hidden": true }, group));
            const sum = ({ value, old, sent }) => value === old + sent ? `adds it (${old} + ${sent} = ${value})` : `keeps it (${value})`;
            return place ? `Round ${place} of ${states.length - 1}: ` + changed.map((one) => `rank ${one.rank} receives chunk ${letters[one.chunk]} from rank ${before(one.rank)} and ${sum(one)}`).join("; ") + "."
                : `Start: in each chunk, rank 0 has 1, rank 1 has 10, and so on. A digit 1 in a number says that the vector of that rank is in the sum.`;
        }, (place) => place + 1 < states.length ? 1800 : undefined);
        box.append(drawing, moves.element, moves.words, make("p", { class: "legend" }, ...COLOURS.map((colour, rank) =>
            make("span", {}, make("i", { style: `background: ${colour}` }), `from rank ${rank}`))),
            make("p", { class: "origin" }, "The numbers are those of the buffers in a run of ", make("code", {}, "ring"), ` with ${ranks} ranks. The last rank sends to rank 0.`));
        moves.move(0);
    }

    for (const box of document.querySelectorAll(".player"))
        ({ timeline, ring })[box.dataset.kind](box, JSON.parse(box.querySelector("script").textContent));
})();
