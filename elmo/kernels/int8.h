/* Products of int8 weights with activations in steps of 1 / levels of a row's largest value.
 *
 * Sums of integers are exact, so all forms below give the same bits. levels 127: symmetric; 255: not negative; 16319:
 * 15 bits, as 128 * high + low, two products. Packed weights are panels of 4 * LANES columns, in words of 4 bytes:
 * [panel][the column's step, the sum of its weights, 4 inputs at a time][column], padded with zeros to DEEP inputs.
 */
#ifndef INT8_H
#define INT8_H
#include <float.h>
#include "panels.h"
#if !defined(PORTABLE) && LANES >= 8 && (defined(__AVX512VNNI__) || defined(__AVXVNNI__)) /* x86 VNNI */
#include <immintrin.h>
#define SHIFT 128 /* added to symmetric activations: the instruction multiplies unsigned by signed bytes */
#else
#define SHIFT 0
#if !defined(PORTABLE) && LANES == 4 && defined(__ARM_FEATURE_DOTPROD) /* set on the command line to test all forms */
#include <arm_neon.h>
#define SDOT
#endif
#endif
#define DEEP 16

#if defined(__aarch64__) && LANES == 4
#define PLACE "w"
#elif defined(__AVX512F__) || (defined(__AVX__) && LANES <= 8) || (defined(__x86_64__) && LANES == 4)
#define PLACE "v"
#else
#define PLACE "m" /* vectors wider than a register */
#endif
typedef int16_t hvec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int8_t bytes __attribute__((vector_size(LANES), aligned(1), may_alias));
typedef int32_t word __attribute__((aligned(1), may_alias));
/* Hides a product from the compiler, which would not round it before it is added to something. */
INLINE vec rounded(vec x) { return ({ __asm__("" : "+" PLACE(x)); x; }); }
INLINE ivec words(const void *from) { return *(const ivec *)from; }
INLINE vec some_of(const float *from, long left) {
    vec x = {0};
    if (left >= LANES) return load(from);
    if (left > 0) memcpy(&x, from, left * sizeof(float));
    return x;
}

static long deep(long depth) { return (depth + DEEP - 1) / DEEP * DEEP; }
static int parts_of(int levels) { return levels > 255 ? 2 : 1; }

/* Rows of activations in whole steps, [row][part][input], and the step of each row. It is NaN if a value is. */
static void quantise(const float *a, long stride, long rows, long depth, int levels, float *steps, int8_t *to) {
    const long wide = deep(depth);
    const int added = SHIFT - (levels == 255 ? 128 : 0);
    const vec rounder = all(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    for (long row = 0; row < rows; row++, a += stride, to += parts_of(levels) * wide) {
        ivec most = {0}; /* as integers: those of NaN are larger than those of numbers */
        for (long k = 0; k < depth; k += LANES) {
            const ivec size = (ivec)some_of(a + k, depth - k) & 0x7fffffff, more = size > most;
            most = (more & size) | (~more & most);
        }
        int32_t largest = 0;
        for (int lane = 0; lane < LANES; lane++) largest = most[lane] > largest ? most[lane] : largest;
        memcpy(steps + row, &largest, sizeof largest);
        steps[row] /= (float)levels;
        steps[row] = steps[row] < FLT_MIN ? FLT_MIN : steps[row];
        const float inverse = 1.0f / steps[row];
        for (long k = 0; k < wide; k += LANES) {
            const vec scaled = rounded(some_of(a + k, depth - k) * inverse) + rounder;
            const ivec whole = (ivec)scaled - (ivec)rounder, high = (whole + 64) >> 7;
            const ivec first = levels > 255 ? high : whole, second = whole - (high << 7);
            *(bytes *)(to + k) = __builtin_convertvector(first + added, bytes);
            if (levels > 255) *(bytes *)(to + wide + k) = __builtin_convertvector(second + added, bytes);
        }
    }
}

/* sum + the products of each word's four bytes. */
INLINE ivec dot(ivec sum, ivec a, ivec b) {
#if SHIFT && LANES == 16
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif SHIFT && defined(__AVX512VNNI__)
    return (ivec)_mm256_dpbusd_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
#elif SHIFT
    return (ivec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
#else
    const hvec odd = ((hvec)a >> 8) * ((hvec)b >> 8), even = ((hvec)a << 8 >> 8) * ((hvec)b << 8 >> 8);
    const ivec pairs = (ivec)(odd + even); /* no overflow: weights are from -127 to 127 */
    return sum + (pairs >> 16) + (pairs << 16 >> 16);
#endif
}

/* sum[m][j] += rows of bytes times columns of a panel. */
INLINE void accumulate_bytes(ivec sum[ROWS][4], const int rows, const int8_t *a, const int32_t *panel, long depth) {
#ifdef SDOT
#define QUARTER(i)                                                                                                    \
    for (int j = 0; j < 4; j++) {                                                                                     \
        const int8x16_t b = (int8x16_t)words(panel + i * PANEL + j * LANES);                                          \
        for (int m = 0; m < rows; m++) sum[m][j] = (ivec)vdotq_laneq_s32((int32x4_t)sum[m][j], b, x[m], i);           \
    }
    for (long k = 0; k < depth; k += DEEP, panel += 4 * PANEL) {
        int8x16_t x[ROWS];
        for (int m = 0; m < rows; m++) x[m] = vld1q_s8(a + m * depth + k);
        QUARTER(0) QUARTER(1) QUARTER(2) QUARTER(3)
    }
#else
    for (long k = 0; k < depth; k += 4, panel += PANEL) {
        const ivec b[4] = {words(panel), words(panel + LANES), words(panel + 2 * LANES), words(panel + 3 * LANES)};
        for (int m = 0; m < rows; m++) {
            const ivec x = *(const word *)(a + m * depth + k) - (ivec){0};
            for (int j = 0; j < 4; j++) sum[m][j] = dot(sum[m][j], x, b[j]);
        }
    }
#endif
}

INLINE void bytes_block(const int rows, const int parts, int levels, const float *steps, const int8_t *a,
                        const int32_t *panel, long depth, const float *start, long start_stride, float *out,
                        long out_stride, long columns, float clip) {
    ivec sum[ROWS][4];
    vec value[ROWS][4];
    const int added = SHIFT - (levels == 255 ? 128 : 0);
    for (int m = 0; m < rows * parts; m++)
        for (int j = 0; j < 4; j++) sum[m][j] = words(panel + PANEL + j * LANES) * -added;
    accumulate_bytes(sum, rows * parts, a, panel + 2 * PANEL, depth);
    for (int m = 0; m < rows; m++) {
        for (int j = 0; j < 4; j++) {
            vec whole = __builtin_convertvector(sum[m * parts][j], vec);
            if (parts == 2) whole = whole * 128.0f + __builtin_convertvector(sum[m * parts + 1][j], vec);
            value[m][j] = rounded(whole * ((vec)words(panel + j * LANES) * steps[m]));
        }
    }
    write_block(rows, value, start, start_stride, out, out_stride, columns, clip);
}

/* As product_rows, for rows from `quantise`; with 15 bits at most ROWS / 2. */
static __attribute__((noinline)) void bytes_rows(long rows, int levels, const float *steps, const int8_t *a,
                                                 const int32_t *panel, long depth, const float *start,
                                                 long start_stride, float *out, long out_stride, long columns,
                                                 float clip) {
#define BLOCK(n) bytes_block(n, 1, levels, steps, a, panel, depth, start, start_stride, out, out_stride, columns, clip)
#define PAIRS(n) bytes_block(n, 2, levels, steps, a, panel, depth, start, start_stride, out, out_stride, columns, clip)
    if (levels <= 255)
        BY_ROWS(rows, BLOCK)
    else if (rows == 1 || ROWS < 4)
        PAIRS(1);
    else if (rows == 2 && ROWS > 5)
        PAIRS(2);
    else
        PAIRS(ROWS / 2);
#undef BLOCK
#undef PAIRS
}

/* Below, levels 0 stands for float32. */
static long words_of_column(int levels, long depth) { return levels ? 2 + deep(depth) / 4 : depth; }

static size_t scratch_bytes(int levels, long rows, long depth) {
    if (!levels) return blocks_of_rows(rows) * (depth < DEPTH ? depth : DEPTH) * sizeof(float) + 1;
    return rows * (sizeof(float) + parts_of(levels) * deep(depth)) + 1;
}

/* As `product`, with scratch_bytes of scratch. */
static void any_product(int levels, const float *a, long stride, const float *packed, const float *start,
                        long start_stride, float *out, long out_stride, long rows, long depth, long columns,
                        float clip, float *scratch) {
    if (!levels) {
        product(a, stride, packed, start, start_stride, out, out_stride, rows, depth, columns, clip, scratch);
        return;
    }
    const long parts = parts_of(levels), wide = parts * deep(depth);
    const int8_t *values = (int8_t *)(scratch + rows);
    quantise(a, stride, rows, depth, levels, scratch, (int8_t *)(scratch + rows));
    for (long column = 0; column < columns; column += PANEL) {
        const int32_t *panel = (const int32_t *)packed + column * words_of_column(levels, depth);
        for (long row = 0; row < rows; row += ROWS / parts)
            bytes_rows(rows - row, levels, scratch + row, values + row * wide, panel, deep(depth),
                       start + row * start_stride + column, start_stride, out + row * out_stride + column, out_stride,
                       columns - column, clip);
    }
}
#endif
