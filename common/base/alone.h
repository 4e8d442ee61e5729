// Files that a run writes while it lasts, such as --csv.
#pragma once

// Opens a file to append to it, or to overwrite it if goes_on is 0. Two runs with one file would
// mix their lines, so if another run has opened it and has not ended, this ends the program, as any
// other failure does. The option is part of the error. On a file system without locks, this does
// not notice the other run.
int open_alone(const char *option, const char *path, int goes_on);
