// Matrix products that do more in the same launch: add a bias, apply ReLU, or sum the gradient of a
// bias. cuBLASLt computes them. The program plans each product once, because the choice of a kernel
// takes time on the host, and then runs it in each training step.
#pragma once
#include "common/models/model.h"
#include <cublasLt.h>

struct fused_product {
    int m, n, k, relu;
    float *bias;
    int one_launch; // 0: cuBLASLt has no kernel for it on this GPU, so it takes two launches
    cublasLtMatmulDesc_t description;
    cublasLtMatrixLayout_t first, second, result;
    cublasLtMatmulAlgo_t kernel;
};

// Plans y [m, n] = x w^T + bias for the rows of x [m, k] and w [n, k], with the type of the pass
// and the math mode of its cuBLAS handle. If relu is 1, negative values become 0.
void plan_forward(struct fused_product *f, const struct pass *pass, int m, int n, int k,
                  float *bias, int relu);
void run_forward(const struct fused_product *f, const struct pass *pass, const void *x,
                 const void *w, float *y);

// Plans the gradients of w and of the bias of that product: dw [n, k] = dy^T x, and dbias [n] = the
// sum of the rows of dy [m, n]. dy_read: dy with the type of the pass.
void plan_gradients(struct fused_product *f, const struct pass *pass, int m, int n, int k,
                    float *dbias);
void run_gradients(const struct fused_product *f, const struct pass *pass, const float *dy,
                   const void *dy_read, const void *x, float *dw);

void end_fused(struct fused_product *f);
