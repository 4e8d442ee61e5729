"""What cudaEventRecord and cudaStreamWaitEvent do: two streams of step 2 (sum_layer and the end of backward)."""
from drawing import COMMUNICATE, COMPUTE, HOST, UPDATE, Figure


def draw():
    f = Figure("An event between two streams", "The stream that computes records an event after backward of layer 3. The stream that sums "
               "waits for it, and sums the gradients of layer 3. Then the first stream waits for an event of the second one, and updates.", 260)
    for y, name in ((50, "t->stream"), (160, "t->comm_stream")):
        f.text(10, y + 30, name, 20, "start", code=True)
        f.area(200, y - 8, 910, 76, HOST.pale)
    f.box(210, 50, 190, 60, "backward of layer 3", COMPUTE, solid=True, size=18)
    f.box(450, 50, 190, 60, "backward of layer 2", COMPUTE, solid=True, size=18)
    f.box(450, 160, 230, 60, "sum of layer 3", COMMUNICATE, solid=True, size=18)
    f.box(900, 50, 190, 60, "update", UPDATE, solid=True, size=18)
    for x, y, to_x, to_y, side in ((412, 80, 442, 190, 60), (692, 190, 892, 80, 80)):
        f.line((x, y - 24), (x, y + 24), thick=5)
        f.arrow((x, y), (to_x, to_y), thick=3)
    f.text(412, 26, "record", 18, bold=True)
    f.text(330, 190, "wait", 18, bold=True)
    f.text(715, 236, "record", 18, bold=True)
    f.text(820, 62, "wait", 18, bold=True)
    return f
