"""Why a parallel file system is slow with small files: https://scicomp.aalto.fi/triton/usage/lustre/. The 1,724 s are those of
https://hpc-training.sdsc.edu/hpc-training-docs/sdsc-summer-institute-2023/3.2_data_management/tutorials/FILESYSTEMS."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, Figure


def draw():
    f = Figure("Small files and large files on a parallel file system", "To open a file, a job asks the metadata server, which all users "
               "share. 60,000 images in as many files are 60,000 questions; packed into six files, they are six. The bytes of a large file "
               "come from many storage servers at the same time.", 340)
    for top, colour, files, count, asks in ((18, COMMUNICATE, "60,000 files", 12, "60,000 questions"), (190, COMPUTE, "6 files", 3, "6 questions")):
        f.box(10, top + 20, 190, 100, f"{files}\nwith the images", HOST, bold=True)
        for i in range(count):
            y = top + 24 + (92 if count > 3 else 60) * i / (count - 1) + (0 if count > 3 else 16)
            f.arrow((206, y), (480, y), colour=colour, thick=1.5)
        f.text(343, top + 2, asks, 20, bold=True)
        f.box(486, top + 20, 210, 100, "metadata server,\nshared by all users", colour)
        for i in range(4):
            f.box(850, top + 8 + 32 * i, 250, 26, f"storage server {i + 1}", COPY, size=18)
            f.arrow((702, top + 70), (844, top + 21 + 32 * i), colour=HOST, thick=1.5 if count > 3 else 3)
    return f
