"""The way of a byte from a GPU to one of another node, with and without GPUDirect RDMA."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, Figure

BOX, HEIGHT = 128, 62


def half(f, left, top, direct, sender):
    """A node: its GPU, PCIe switch, host memory and NIC, from the outside to the network in the middle."""
    def place(x):
        return left + (x if sender else 500 - BOX - x)
    f.group(left, top, 500, 196, "", HOST)
    f.box(place(20), top + 20, BOX, HEIGHT, "GPU", COMPUTE, solid=True, bold=True, size=22)
    f.box(place(186), top + 20, BOX, HEIGHT, "PCIe\nswitch", COPY)
    f.box(place(352), top + 20, BOX, HEIGHT, "NIC", COMMUNICATE, bold=True, size=22)
    f.box(place(186), top + 122, BOX, HEIGHT, "memory of\nthe host", HOST)

    def arrow(*points):
        f.arrow(*(points if sender else points[::-1]), colour=COMMUNICATE, thick=4)
    inside, outside = (place(20) + BOX, place(352)) if sender else (place(20), place(352) + BOX)
    near, far = (place(186), place(186) + BOX) if sender else (place(186) + BOX, place(186))
    y, down, up = top + 20 + HEIGHT / 2, place(186) + 30, place(186) + BOX - 30
    arrow((inside, y), (near, y))
    if not direct:
        if not sender:
            down, up = up, down
        arrow((down, top + 82), (down, top + 122))
        arrow((up, top + 122), (up, top + 82))
    arrow((far, y), (outside, y))


def draw():
    f = Figure("The way of a byte with and without GPUDirect RDMA", "Without GPUDirect RDMA, the GPU writes a message to the "
               "memory of the host, and the network card reads it there; on the other node, it goes through the memory of the "
               "host again. With GPUDirect RDMA, the card reads the memory of the GPU itself.", 520)
    for row, (name, direct) in enumerate((("without GPUDirect RDMA: through the memory of both hosts", False),
                                          ("with GPUDirect RDMA: the NIC reads the memory of the GPU itself", True))):
        top = 44 + 264 * row
        f.text(16, top - 20, name, 22, "start", bold=True)
        half(f, 8, top, direct, True)
        half(f, 612, top, direct, False)
        f.arrow((488, top + 51), (632, top + 51), colour=COMMUNICATE, thick=4)
    return f
