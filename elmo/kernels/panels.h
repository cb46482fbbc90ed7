/* Shared code of the compiled sources: vectors, their exponential, and products with packed weights.
 *
 * Plain C with the vector types of gcc and clang; the compiler chooses the instructions. Every value is summed in one
 * fixed order, input by input, independent of the other rows and of the thread.
 *
 * Packed weights are panels of 4 * LANES columns: [panel][input][4 * LANES], padded with zeros.
 */
#ifndef PANELS_H
#define PANELS_H
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(LANES) /* set on the command line; all values are correct, one is fastest */
#elif defined(__AVX512F__)
#define LANES 16
#define ROWS 6 /* rows of a product computed at once: 4 * ROWS sums and their operands fill the registers */
#elif defined(__AVX__)
#define LANES 8
#define ROWS 3
#elif defined(__aarch64__)
#define LANES 4
#define ROWS 6
#else
#define LANES 4
#define ROWS 3
#endif
#define PANEL (4 * LANES)
#define DEPTH 256 /* inputs of a product processed at once: their panel stays in the L1 cache */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float *from) { return *(const vec *)from; }
INLINE void store(float *to, vec value) { *(vec *)to = value; }
INLINE vec all(float value) { return value - (vec){0}; }
/* Comparisons with NaN are false, so at_most and at_least keep a NaN. */
INLINE vec choose(ivec which, vec yes, vec no) { return (vec)((which & (ivec)yes) | (~which & (ivec)no)); }
INLINE vec at_most(vec x, vec bound) { return choose(x > bound, bound, x); }
INLINE vec at_least(vec x, vec bound) { return choose(x < bound, bound, x); }

/* exp(x) with an error of at most two units in the last place; x is clamped to -bound and bound. The result is finite
 * for bounds up to 87. */
INLINE vec bounded_exponential(vec x, const float bound) {
    const vec rounder = all(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    x = at_least(at_most(x, all(bound)), all(-bound));
    vec shifted = x * 1.44269504088896341f + rounder;
    vec n = shifted - rounder;
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 in two parts; the first has few bits */
    vec p = r * 1.9875691500e-4f + 1.3981999507e-3f; /* polynomial of the Cephes library */
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    ivec power = ((ivec)shifted - (ivec)rounder) << 23;
    return (vec)((ivec)p + power);
}

INLINE vec exponential(vec x) { return bounded_exponential(x, 87.0f); }

INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + exponential(-x)); }

/* sum[m][j] += inputs of packed rows times columns of a panel. */
INLINE void accumulate(vec sum[ROWS][4], const int rows, const float *a, const float *panel, long depth) {
    for (long k = 0; k < depth; k++, a += ROWS, panel += PANEL) {
        const vec b0 = load(panel), b1 = load(panel + LANES), b2 = load(panel + 2 * LANES), b3 = load(panel + 3 * LANES);
        for (int m = 0; m < rows; m++) {
            sum[m][0] += b0 * a[m];
            sum[m][1] += b1 * a[m];
            sum[m][2] += b2 * a[m];
            sum[m][3] += b3 * a[m];
        }
    }
}

/* Packs rows of inputs for `accumulate`: [block of ROWS][input][row]. */
static void pack_rows(const float *a, long stride, long rows, long depth, float *packed) {
    for (long row = 0; row < rows; row++) {
        float *to = packed + row / ROWS * ROWS * depth + row % ROWS;
        for (long k = 0; k < depth; k++) to[k * ROWS] = a[row * stride + k];
    }
}

/* Writes the sums of a panel plus `start`, clipped to -clip and clip. */
INLINE void write_block(const int rows, vec sum[ROWS][4], const float *start, long start_stride, float *out,
                        long out_stride, long columns, float clip) {
    float edge[PANEL] = {0};
    for (int m = 0; m < rows; m++) {
        const float *from = start + m * start_stride;
        float *to = out + m * out_stride;
        if (columns < PANEL) from = memcpy(edge, from, columns * sizeof(float)), to = edge;
        for (int j = 0; j < 4; j++) {
            const vec whole = load(from + j * LANES) + sum[m][j];
            store(to + j * LANES, at_least(at_most(whole, all(clip)), all(-clip)));
        }
        if (columns < PANEL) memcpy(out + m * out_stride, edge, columns * sizeof(float));
    }
}

/* `rows` is a constant in all calls, so that the compiler unrolls the loops. */
INLINE void product_block(const int rows, const float *a, const float *panel, long depth, const float *start,
                          long start_stride, float *out, long out_stride, long columns, float clip) {
    /* `start` is added last: shorter chains of sums have smaller rounding errors. */
    vec sum[ROWS][4];
    for (int m = 0; m < rows; m++)
        for (int j = 0; j < 4; j++) sum[m][j] = all(0.0f);
    /* For the next panel: rows are too far apart for the processor to prefetch them by itself. */
    for (int m = 0; m < rows; m++) __builtin_prefetch(start + m * start_stride + PANEL);
    accumulate(sum, rows, a, panel, depth);
    write_block(rows, sum, start, start_stride, out, out_stride, columns, clip);
}

/* BLOCK(rows) with a constant for each number of rows up to ROWS. */
#if ROWS > 3
#define MORE(BLOCK) case 3: BLOCK(3); break; case 4: BLOCK(4); break; case 5: BLOCK(5); break;
#else
#define MORE(BLOCK)
#endif
#define BY_ROWS(rows, BLOCK) \
    switch (rows) { case 1: BLOCK(1); break; case 2: BLOCK(2); break; MORE(BLOCK) default: BLOCK(ROWS); }

/* Not inlined: otherwise not all sums would stay in registers. */
static __attribute__((noinline)) void product_rows(long rows, const float *a, const float *panel, long depth,
                                                   const float *start, long start_stride, float *out, long out_stride,
                                                   long columns, float clip) {
#define BLOCK(n) product_block(n, a, panel, depth, start, start_stride, out, out_stride, columns, clip)
    BY_ROWS(rows, BLOCK)
#undef BLOCK
}

/* out = a @ weights + start, clipped to -clip and clip. With a start_stride of 0 the same row, a bias, is added to all.
 * `scratch` has space for whole blocks of rows with up to DEPTH values each. */
static void product(const float *a, long stride, const float *packed, const float *start, long start_stride, float *out,
                    long out_stride, long rows, long depth, long columns, float clip, float *scratch) {
    for (long first = 0; first < depth; first += DEPTH) {
        const long some = depth - first < DEPTH ? depth - first : DEPTH;
        const float bound = first + some == depth ? clip : INFINITY;
        pack_rows(a + first, stride, rows, some, scratch);
        for (long column = 0; column < columns; column += PANEL) {
            const float *panel = packed + column * depth + first * PANEL;
            for (long row = 0; row < rows; row += ROWS) {
                float *to = out + row * out_stride + column;
                const float *from = first ? to : start + row * start_stride + column;
                product_rows(rows - row, scratch + row * some, panel, some, from, first ? out_stride : start_stride, to,
                             out_stride, columns - column, bound);
            }
        }
    }
}

static long blocks_of_rows(long rows) { return (rows + ROWS - 1) / ROWS * ROWS; }

#endif
