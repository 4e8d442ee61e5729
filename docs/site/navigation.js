// The order of the pages. `groups` gets the paths of all Markdown files, and refuses one that is in no group, so that a
// new guide is not forgotten.

const GUIDES = ["single-gpu-first", "batch", "training", "data", "convolution", "language-models", "which",
    "nccl", "seeing", "where", "launchers", "clusters-data", "offline"].map((name) => `docs/${name}.md`);

const step = (path) => (path.match(/^exercises\/(\d)\./) || [])[1];
const numbers = new Intl.Collator("en", { numeric: true }).compare; // debug/2 stands before debug/10

// The pages of the groups in the order of the course.
exports.flat = (groups) => groups.flatMap((group) => [...group.pages, ...exports.flat(group.groups || [])]);

exports.groups = (paths) => {
    const matching = (pattern) => paths.filter((path) => pattern.test(path)).sort(numbers);
    const exercises = matching(/^exercises\/\d/);
    const all = [
        { title: "The steps", pages: ["README.md", ...matching(/^0\d_[^/]*\/README\.md$/)] },
        { title: "Exercises", pages: ["exercises/README.md"], groups: [
            ...[...new Set(exercises.map(step))].map((number) => ({
                title: `Step ${number}`, pages: exercises.filter((path) => step(path) === number) })),
            { title: "Debugging lab", pages: matching(/^exercises\/debug\//) }] },
        { title: "Guides", pages: [...GUIDES, "slurm/README.md", "pbs/README.md"] },
        { title: "Reference", pages: ["docs/glossary.md", "docs/pytorch.md", "docs/troubleshooting.md", "docs/measurements.md",
            "common/README.md", "zoo/README.md", "cpu_device/README.md", "cpu_device/API.md"] },
        { title: "Workshops", pages: ["docs/attendee.md", "docs/instructor.md", "docs/slides/README.md"] },
        { title: "Contributing", pages: ["CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "tests/README.md"] },
    ];
    const listed = exports.flat(all);
    const wrong = [...paths.filter((path) => !listed.includes(path)), ...listed.filter((path) => !paths.includes(path))];
    if (wrong.length)
        throw new Error(`docs/site/navigation.js and the texts differ: ${wrong.join(", ")}`);
    return all;
};
