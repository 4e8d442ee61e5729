// A click on the timer of an exercise starts it, and stops it again. Its colour changes when the time is over.
document.querySelectorAll(".timer").forEach(function (timer) {
    var left = Number(timer.dataset.seconds), running = null;
    function show() {
        var seconds = Math.abs(left);
        timer.textContent = (left < 0 ? "-" : "") + Math.floor(seconds / 60) + ":" + String(seconds % 60).padStart(2, "0");
        timer.classList.toggle("over", left <= 0);
    }
    timer.addEventListener("click", function (event) {
        event.stopPropagation();
        if (running) {
            clearInterval(running);
            running = null;
        } else {
            running = setInterval(function () { left--; show(); }, 1000);
        }
        timer.classList.toggle("running", running !== null);
    });
});
