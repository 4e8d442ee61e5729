// The instructions of tensor cores that attention uses, those that copy to them, and how a warp
// holds their matrices (NVIDIA, "PTX ISA", "Matrix multiply-accumulate operation using mma
// instruction" and "Data Movement and Conversion Instructions: Non-bulk copy"). Here, row is lane /
// 4 and column is lane % 4, where lane is the number of the thread in its warp. A word is a float
// in TF32, or two bfloat16 with the one of the lower index in the lower half:
//   c, 16 x 8 floats: a thread has c(row, 2 column), c(row, 2 column + 1), and the same of row + 8
//   a, 16 x 8 words: a(row, column), a(row + 8, column), and the same of column + 4
//   b, 8 words x 8: b(column, row), b(column + 4, row)
#pragma once
#include <stdint.h>

// GPUs before compute capability 8.0 do not have these instructions.
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 800
#define PTX(...) ((void)0)
__device__ static inline int has_tensor_cores() {
    return 0;
}
#else
#define PTX(...) asm volatile(__VA_ARGS__)
__device__ static inline int has_tensor_cores() {
    return 1;
}
#endif

#ifdef __CUDACC__ // without nvcc, tests/unit/host_cuda.h has these functions
// c += a b.
template <class T> __device__ void multiply_add(float *c, const unsigned *a, const unsigned *b);

template <>
__device__ inline void multiply_add<uint16_t>(float *c, const unsigned *a, const unsigned *b) {
    PTX("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

template <>
__device__ inline void multiply_add<float>(float *c, const unsigned *a, const unsigned *b) {
    PTX("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Returns x rounded to TF32, as a word.
__device__ static inline unsigned tf32_of(float x) {
    unsigned word = 0;
    PTX("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
    return word;
}

// Returns two bfloat16 as a word.
__device__ static inline unsigned bfloat16_pair(float low, float high) {
    unsigned word = 0;
    PTX("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

#define COPY(cache, to, from, bytes, source)                                                       \
    PTX("cp.async." cache ".shared.global [%0], [%1], %2, %3;"                                     \
        :                                                                                          \
        : "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(bytes), "r"(source)          \
        : "memory")

// Begins to copy 8 or 16 bytes from global to shared memory or, if they do not exist, zeros. They
// are there, for this thread, after await_copies.
template <int BYTES> __device__ static inline void copy(void *to, const void *from, int exist) {
    struct alignas(BYTES) unit {
        unsigned at[BYTES / 4];
    };
    if (!has_tensor_cores())
        *(unit *)to = exist ? *(const unit *)from : unit();
    else if (BYTES == 8)
        COPY("ca", to, from, 8, exist ? 8 : 0);
    else
        COPY("cg", to, from, 16, exist ? 16 : 0);
}

__device__ static inline void await_copies() {
    PTX("cp.async.wait_all;" ::: "memory");
}

#define READ_MATRICES(kind, b, from)                                                               \
    PTX("ldmatrix.sync.aligned.m8n8.x4" kind ".shared.b16 {%0, %1, %2, %3}, [%4];"                 \
        : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])                                           \
        : "r"((unsigned)__cvta_generic_to_shared(from))                                            \
        : "memory")

// Reads b of two products from 8 rows of 16 words in shared memory, which begin pitch values apart.
template <class T> __device__ void read_words(unsigned *b, const T *rows, unsigned pitch) {
    READ_MATRICES("", b, rows + threadIdx.x % 8 * pitch + threadIdx.x % 32 / 8 * (16 / sizeof(T)));
}

// Reads b of two products from 16 rows of 16 bfloat16, which begin pitch values apart: the rows of
// a column become words.
__device__ static inline void read_columns(unsigned *b, const uint16_t *rows, unsigned pitch) {
    READ_MATRICES(".trans", b, rows + threadIdx.x % 16 * pitch + threadIdx.x % 32 / 16 * 8);
}
#endif
