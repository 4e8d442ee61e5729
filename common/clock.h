#pragma once

// Returns seconds on a clock that never jumps.
double seconds(void);
