"""The losses of step 1, and of step 5 on 1, 2 and 4 ranks. losses-sharded.txt holds what the commands below the figure in
docs/slides/4-large-models.md print."""
from losses import curves


def draw(text):
    return curves("The losses of step 1 and of step 5", text, ("step 1", "step 5, 1 rank", "step 5, 2 ranks", "step 5, 4 ranks"))
