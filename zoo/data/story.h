// The text of --data text: short stories in simple English, from a fixed seed, the same on every
// machine. They have patterns of all lengths: words, names that return as "she" or "he", things
// that change their owner, numbers that count up, and sums.
#pragma once

enum { STORY_BYTES = 300000 };

// Fills text[0..STORY_BYTES). Returns the information of its random choices in nats per byte. No
// model that learns the stories can have a lower mean loss, but one that knows this text by heart.
double write_stories(char *text);
