// Before the page is drawn: the theme that the reader has chosen, or else that of the system.
(() => {
    const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
    const kept = () => { try { return localStorage.getItem("theme"); } catch { return null; } }; // may be forbidden
    const show = () => { root.dataset.theme = kept() || (dark.matches ? "dark" : "light"); };
    dark.addEventListener("change", show);
    show();
    document.addEventListener("DOMContentLoaded", () => document.getElementById("theme").addEventListener("click", () => {
        root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
        try { localStorage.setItem("theme", root.dataset.theme); } catch { /* then it lasts as long as the page */ }
    }));
})();
