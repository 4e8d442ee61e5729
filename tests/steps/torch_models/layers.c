// layers IMAGES HEIGHT WIDTH CHANNELS LAYER...: runs a list of layers forward and backward on the
// CPU device. A LAYER is a kind and the numbers that its append_ function takes, such as
// convolution:8,3,1,1,0. The words residual, shortcut and end begin and end a residual block. Reads
// floats from stdin: the parameters, x and dy. Writes y, dx and the gradients to stdout.
#include "common/layers/layers.h"
#include "common/base/minmax.h"
#include "common/device/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(struct model *m, const char *word) {
    char kind[32] = "";
    int n[5] = {0}, relu;
    sscanf(word, "%31[a-z_]:%d,%d,%d,%d,%d", kind, n, n + 1, n + 2, n + 3, n + 4);
    relu = strstr(kind, "_relu") != NULL;
    if (!strncmp(kind, "convolution", 11))
        append_convolution(m, relu ? &convolution_relu : &convolution, n[0], n[1], n[2], n[3],
                           n[4]);
    else if (!strncmp(kind, "group_norm", 10))
        append_group_norm(m, relu ? &group_normalisation_relu : &group_normalisation, n[0]);
    else if (!strncmp(kind, "dense", 5))
        append_dense(m, relu ? &dense_relu : &dense, n[0]);
    else if (!strcmp(kind, "max_pooling"))
        append_max_pooling(m, n[0]);
    else if (!strcmp(kind, "mean_pooling"))
        append_mean_pooling(m);
    else if (!strcmp(kind, "residual"))
        begin_residual(m, 1);
    else if (!strcmp(kind, "shortcut"))
        begin_shortcut(m);
    else if (!strcmp(kind, "end"))
        end_residual(m);
    else
        fail("there is no layer %s", word);
}

static float *new_array(size_t count) {
    float *device;
    CUDA_CHECK(cudaMalloc((void **)&device, max_size(count, 1) * sizeof *device));
    return device;
}

static void from_stdin(float *device, size_t count) {
    float *host = malloc(count * sizeof *host);
    if (fread(host, sizeof *host, count, stdin) != count)
        fail("stdin has fewer than %zu floats", count);
    CUDA_CHECK(cudaMemcpy(device, host, count * sizeof *host, cudaMemcpyHostToDevice));
    free(host);
}

static void to_stdout(const float *device, size_t count) {
    float *host = malloc(count * sizeof *host);
    CUDA_CHECK(cudaDeviceSynchronize());
    CUDA_CHECK(cudaMemcpy(host, device, count * sizeof *host, cudaMemcpyDeviceToHost));
    fwrite(host, sizeof *host, count, stdout);
    free(host);
}

int main(int argc, char **argv) {
    static struct model m;
    static float *y[MOST_LAYERS + 1]; // [0]: x, [i + 1]: the outputs of layer i
    struct pass pass = {.training = 1};
    int b = atoi(argv[1]);
    m.out = (struct shape){atoi(argv[2]), atoi(argv[3]), atoi(argv[4])};
    for (int i = 5; i < argc; i++)
        append(&m, argv[i]);
    size_t inputs = (size_t)b * m.layers[0].inputs, outputs = (size_t)b * shape_size(m.out);
    size_t widest = inputs;
    y[0] = new_array(inputs);
    for (int i = 0; i < m.count; i++) {
        size_t count = (size_t)b * (m.layers[i].outputs + m.layers[i].workspace);
        y[i + 1] = new_array(count);
        widest = max_size(widest, count);
    }
    float *parameters = new_array(m.parameters), *gradients = new_array(m.parameters);
    float *dy = new_array(widest), *dx = new_array(widest);
    CUBLAS_CHECK(cublasCreate(&pass.blas));
    pass.scratch = new_array(model_scratch(&m, pass.type, b) / sizeof(float) + 1);
    from_stdin(parameters, m.parameters);
    from_stdin(y[0], inputs);
    from_stdin(dy, outputs);
    for (const struct layer *l = m.layers; l < m.layers + m.count; l++) {
        float **x = y + (l - m.layers);
        l->kind->forward(l, &pass, parameters + l->first, x[0], x[1], b);
    }
    to_stdout(y[m.count], outputs);
    for (const struct layer *l = m.layers + m.count - 1; l >= m.layers; l--) {
        float **x = y + (l - m.layers), *swap = dy;
        l->kind->backward(l, &pass, parameters + l->first, x[0], x[1], dy, dx, gradients + l->first,
                          b);
        dy = dx;
        dx = swap;
    }
    to_stdout(dy, inputs);
    to_stdout(gradients, m.parameters);
    return 0;
}
