"""The roofline of an H100: the rate of a kernel is limited by the arithmetic, or by its FLOPs per byte times the rate of the
memory. The rates are those of the modelled H100 (cpu_device/src/gpu_rates.c), whose sources are in cpu_device/README.md. The rate of the
L2 cache was measured on an H100 PCIe: 6,979 GB/s for 8.4 MB of data, which its L1 caches help to read:
https://github.com/te42kyfo/gpu-benches, gpu-l2-cache/h100_pcie.txt."""
from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, HOST, UPDATE, WHITE, Figure, log_scale, measure
from formulas import gpus

GPU, L2 = gpus()["h100"], 7e12
LEFT, RIGHT, TOP, BOTTOM = 96, 1096, 44, 362
LEAST = 0.1
x, y = log_scale(LEAST, 1000, LEFT, RIGHT), log_scale(LEAST * 1e12, 1e15, BOTTOM, TOP)  # of FLOPs per byte, and of FLOP/s


def product_intensity():
    """FLOPs per byte of a product of the second layer: 128 samples, 512 inputs and outputs."""
    return 2 * 128 * 512 * 512 / (4 * (2 * 128 * 512 + 512 * 512))


def draw():
    product, update = product_intensity(), 4 / 20
    border = GPU["fp32"] / GPU["memory"]
    f = Figure("The roofline of an H100", f"The rate of a kernel against its FLOPs per byte, both logarithmic. Arithmetic in fp32 allows "
               f"{GPU['fp32'] / 1e12:.1f} TFLOP/s, tensor cores with TF32 {GPU['tf32'] / 1e12:.0f}. Below {border:.0f} FLOPs per byte, the "
               f"memory of {GPU['memory'] / 1e9:,.0f} GB/s is the limit. A product of the second layer has {product:.0f} FLOPs per byte, "
               f"sgd_step {update}: {update * GPU['memory'] / 1e12:.1f} TFLOP/s from memory, {update * L2 / 1e12:.1f} from the L2 cache.", 430)
    for power in range(-1, 4):
        f.line((x(10 ** power), TOP), (x(10 ** power), BOTTOM), colour=HOST, thick=0.7)
        f.line((LEFT, y(10 ** power * 1e12)), (RIGHT, y(10 ** power * 1e12)), colour=HOST, thick=0.7)
        f.text(x(10 ** power), BOTTOM + 20, f"{10 ** power:g}", 18)
        f.text(LEFT - 12, y(10 ** power * 1e12), f"{10 ** power:g}", 18, "end")
    f.text((LEFT + RIGHT) / 2, BOTTOM + 52, "FLOPs per byte", 20)
    f.text(20, 18, "TFLOP/s", 20, "start")
    for rate, colour in ((GPU["memory"], COPY), (L2, UPDATE)):
        f.line((x(LEAST), y(LEAST * rate)), (x(GPU["fp32"] / rate), y(GPU["fp32"])), colour=colour, thick=4)
    f.line((x(border), y(GPU["fp32"])), (x(GPU["tf32"] / GPU["memory"]), y(GPU["tf32"])), colour=COPY, thick=4, dashed=True)
    f.line((x(GPU["fp32"] / L2), y(GPU["fp32"])), (RIGHT, y(GPU["fp32"])), colour=COMPUTE, thick=4)
    f.line((x(GPU["tf32"] / GPU["memory"]), y(GPU["tf32"])), (RIGHT, y(GPU["tf32"])), colour=FOURTH, thick=4, dashed=True)

    def label(left, height, text):
        width = measure(text, 20, bold=True) + 12
        f.area(left, height - 15, width, 30, WHITE)
        f.text(left + width / 2, height, text, 20, bold=True)
    label(860, y(GPU["fp32"]) - 24, f"fp32: {GPU['fp32'] / 1e12:.1f} TFLOP/s")
    label(830, y(GPU["tf32"]) - 24, f"TF32: {GPU['tf32'] / 1e12:.0f} TFLOP/s")
    label(250, 182, f"L2: {L2 / 1e9:,.0f} GB/s")
    label(410, 250, f"HBM: {GPU['memory'] / 1e9:,.0f} GB/s")
    for intensity, flops, text, dx, dy in (
            (product, GPU["fp32"], f"a product of the second layer: {product:.0f} FLOPs per byte", -110, 34),
            (update, update * GPU["memory"], f"sgd_step: {update} FLOPs per byte, {update * GPU['memory'] / 1e12:.1f} TFLOP/s", 14, 20),
            (update, update * L2, f"in L2: {update * L2 / 1e12:.1f}", -50, -34)):
        f.disc(x(intensity), y(flops), 10, COMMUNICATE)
        label(x(intensity) + dx, y(flops) + dy, text)
    return f
