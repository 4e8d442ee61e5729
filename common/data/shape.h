// The shape of a sample: an image, or a plain vector, which is an image of one pixel.
#pragma once

// The values of an image are stored pixel by pixel, and those of a pixel channel by channel, as in
// "channels last" of PyTorch: value [y, x, c] has the index (y * width + x) * channels + c.
struct shape {
    int height, width, channels;
};

// Returns the number of values.
static inline int shape_size(struct shape s) {
    return s.height * s.width * s.channels;
}
