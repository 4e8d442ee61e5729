"""What fills an H100 if eight of them train a model of 8 billion parameters with FSDP: the states, and the activations of one
sequence in bf16, with attention that stores no scores."""
from drawing import COMPUTE, COPY, HOST, Figure
from formulas import gpus, transformer_activation_bytes

LAYERS, WIDTH, PARAMETERS, RANKS, TOKENS = 32, 4096, 8.03e9, 8, (2048, 8192, 32768, 131072)
GB, LEFT, TOP, PITCH, HEIGHT, END = 1e9, 330, 56, 98, 36, 940
CAPACITY = gpus()["h100"]["capacity"] / GB
SCALE = 470 / CAPACITY  # pixels for each GB; longer bars are cut


def activations(tokens, recompute):
    """In GB. With recomputation, backward also has one block at a time."""
    block = transformer_activation_bytes(1, WIDTH, tokens) if recompute else 0
    return (transformer_activation_bytes(LAYERS, WIDTH, tokens, recompute=recompute) + block) / GB


def draw():
    states = 16 * PARAMETERS / RANKS / GB
    f = Figure("Memory of a GPU for sequences of several lengths", f"States {states:.1f} GB, and activations of " + "; ".join(
        f"{tokens:,} tokens: {activations(tokens, False):.1f} GB, recomputed {activations(tokens, True):.1f} GB" for tokens in TOKENS) + ".",
        TOP + PITCH * len(TOKENS) + 36)
    f.legend(LEFT, 24, ((f"states, {states:.1f} GB", COMPUTE), ("activations of one sequence", COPY)))
    for i, tokens in enumerate(TOKENS):
        y = TOP + i * PITCH
        f.text(20, y + HEIGHT + 3, f"{tokens:,} tokens", 20, "start", bold=True)
        for recompute in (0, 1):
            size, row = activations(tokens, recompute), y + 42 * recompute
            shown = min(size, (END - LEFT) / SCALE - states)
            f.bar(LEFT, row, HEIGHT, SCALE, ((states, COMPUTE), (shown, COPY)), f"{states + size:.1f} GB" + " ..." * (size > shown),
                  name="recomputed" if recompute else "stored")
    end, bottom = LEFT + CAPACITY * SCALE, TOP + PITCH * len(TOKENS)
    f.line((end, TOP - 12), (end, bottom - 6), colour=HOST, thick=3, dashed=True)
    f.text(end, bottom + 14, f"an H100 has {CAPACITY:.1f} GB", 20)
    return f
