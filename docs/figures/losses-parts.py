"""The losses of a transformer on one rank, and divided in two ways. losses-parts.txt holds what the commands below the figure in
docs/slides/5-language-models.md print."""
import os

from losses import curves

TABLE = os.path.splitext(os.path.abspath(__file__))[0] + ".txt"


def draw(table=TABLE):
    return curves("The losses of a transformer, whole and divided", table, ("one rank", "2 parts, 2 stages", "4 parts"))
