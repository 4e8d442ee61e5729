"""The way of the data in a job: from the file system once to the disk of each node, and from there to its ranks."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, Figure


def draw():
    f = Figure("Data are copied once per node", "The file system sends the packed data once to each of two nodes. The four ranks of a node "
               "read them from its own disk or memory. Snapshots go back to the file system, because the disk is empty after the job.", 330)
    f.box(10, 90, 210, 150, "file system\nof the cluster:\ndata.tar", HOST, bold=True)
    for node in range(2):
        y = 10 + 165 * node
        f.group(420, y, 690, 145, f"node {node}", HOST, size=20, bold=True)
        f.box(440, y + 44, 200, 82, "its disk, or\n/dev/shm", COPY)
        f.arrow((226, 150 + 30 * node), (330, y + 85), (434, y + 85), colour=COMMUNICATE, thick=4)
        for rank in range(4):
            f.box(780 + 80 * rank, y + 44, 70, 82, f"rank\n{4 * node + rank}", COMPUTE, size=18)
        f.arrow((646, y + 85), (774, y + 85), colour=COPY, thick=4)
        f.text(708, y + 60, "each epoch", 18)
    f.text(330, 40, "once", 20, bold=True, colour=COMMUNICATE.line)
    f.text(330, 296, "once", 20, bold=True, colour=COMMUNICATE.line)
    return f
