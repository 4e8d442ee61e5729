// A clock for durations.
#pragma once

// Returns the seconds since some fixed time in the past. The clock never jumps.
double seconds(void);
