"""What interrupted the training of Llama 3 405B: The Llama 3 Herd of Models (arXiv 2407.21783), table 5 in section 3.3.4."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, bars

ALL, CAUSES = 419, [("faulty GPU", 148, COMPUTE), ("memory of a GPU", 72, COPY), ("network switch or cable", 35, COMMUNICATE)]


def draw():
    causes = CAUSES + [("other causes", ALL - sum(count for _, count, _ in CAUSES), HOST)]
    return bars("Causes of unexpected interruptions of Llama 3 405B", f"{ALL} interruptions in 54 days on 16,384 GPUs.",
                [(name, [(count, colour)], str(count)) for name, count, colour in causes], 320, 673)
