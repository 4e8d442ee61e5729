"""An image of 4 x 4 pixels with 2 channels, its windows of 3 x 3 pixels as rows of a matrix, and the product (docs/convolution.md)."""
from drawing import COMMUNICATE, COMPUTE, HOST, Figure

SIZE, CHANNELS, WINDOW, OUTPUTS = 4, 2, 3, 3
PLACES = SIZE - WINDOW + 1
CELL, LINE, TOP = 27, 38, 90
IMAGE, PATCHES, Y = 4, 270, 860


def rows_of(f, left, top, rows, cell=CELL, grey=True):
    """A matrix, in which the columns of channel 1 are grey."""
    width = len(rows[0]) * cell
    f.area(left, top, width, LINE * len(rows), "#FFFFFF", "#222222")
    for column in range(1, len(rows[0]) if grey else 0, CHANNELS):
        f.area(left + column * cell, top, cell, LINE * len(rows), HOST.pale)
    for i, row in enumerate(rows):
        if i:
            f.line((left, top + i * LINE), (left + width, top + i * LINE), thick=1)
        for j, value in enumerate(row):
            f.text(left + (j + 0.5) * cell, top + (i + 0.5) * LINE, str(value), 18)


def draw():
    f = Figure("A convolution as a matrix product",
               "An image of 4 by 4 pixels with 2 channels. Each window of 3 by 3 pixels becomes a row of 18 numbers in the matrix of "
               "patches, which has 4 rows. Patches times the transposed weights, 3 rows of 18 numbers, are the outputs: 4 pixels with "
               "3 channels.", 400)
    wide = SIZE * CHANNELS
    image = [[y * wide + i for i in range(wide)] for y in range(SIZE)]
    windows = [(y, x) for y in range(PLACES) for x in range(PLACES)]
    patches = [[number for dy in range(WINDOW) for number in image[y + dy][x * CHANNELS:(x + WINDOW) * CHANNELS]] for y, x in windows]
    for left, width, title in ((IMAGE, wide * CELL, "image x [4, 4, 2]"), (PATCHES, 18 * CELL, "patches [4, 18]: a row for each window"),
                               (Y, OUTPUTS * 60, "y [4, 3]")):
        f.text(left + width / 2, 24, title, 22, bold=True)
    for row in range(WINDOW):
        f.text(PATCHES + (row + 0.5) * WINDOW * CHANNELS * CELL, 66, f"window row {row}", 18)
    rows_of(f, IMAGE, TOP, image)
    rows_of(f, PATCHES, TOP, patches)
    f.text((PATCHES + 18 * CELL + Y) / 2, TOP + 2 * LINE, "=", 40, bold=True)
    rows_of(f, Y, TOP, [[OUTPUTS * place + c for c in range(OUTPUTS)] for place in range(len(windows))], 60, grey=False)
    for place, colour, dashed in ((0, COMPUTE, False), (len(windows) - 1, COMMUNICATE, True)):
        y, x = windows[place]
        f.area(IMAGE + x * CHANNELS * CELL, TOP + y * LINE, WINDOW * CHANNELS * CELL, WINDOW * LINE, "none", colour.line, dashed, 4)
        for left, width in ((PATCHES, 18 * CELL), (Y, OUTPUTS * 60)):
            f.area(left, TOP + place * LINE, width, LINE, "none", colour.line, dashed, 4)
        f.text(IMAGE, TOP + 5 * LINE + 30 * (place > 0), f"window [{y}, {x}]: {'dashed' if dashed else 'solid'}", 18, "start")
    f.box(PATCHES, TOP + 5 * LINE, 18 * CELL, 3 * LINE, "× the transpose of the weights W [3, 18]:\na row of 18 weights for each output channel", size=18)
    f.text(Y + 90, TOP + 4 * LINE + 44, "an image [2, 2, 3],\nits channels last, too", 18)
    return f
