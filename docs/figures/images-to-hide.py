"""How many images each GPU needs, so that backward takes as long as the sum of the gradients: 4 FLOPs against 8 bytes for each
parameter. tokens_to_hide counts 6 FLOPs."""
from drawing import COMPUTE, FOURTH, UPDATE, bars
from formulas import gpus, tokens_to_hide

ROWS = (("H100, fp32, in a node", "h100", "fp32", COMPUTE), ("H100, TF32, in a node", "h100", "tf32", UPDATE), ("L4, TF32, PCIe", "l4", "tf32", FOURTH))


def draw():
    rows = []
    for name, gpu, precision, colour in ROWS:
        rates = gpus()[gpu]
        images = 1.5 * tokens_to_hide(8, rates[precision], rates["link"])
        rows.append((name, [(images, colour)], f"{images:,.0f} images: {rates[precision] / 1e12:.0f} TFLOP/s, {rates['link'] / 1e9:.0f} GB/s"))
    return bars("Images for each GPU, from which on a sum can hide", "", rows, 330, 380)
