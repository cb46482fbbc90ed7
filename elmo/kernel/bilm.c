/* The biLM's arithmetic on a CPU: products with prepared weights, the LSTM's step, the characters' windows.
 *
 * Plain C with the vector types of gcc and clang; which instructions they become is the compiler's business. Every value
 * is summed in one fixed order, input after input, whatever rows are computed beside it and by whichever thread: so the
 * layers of a sentence have the same bits in any company. Nothing here starts threads; callers run calls side by side.
 *
 * Prepared ("packed") weights are panels of 4 * LANES columns: [panel][input][4 * LANES], zero where columns run out. The
 * LSTM's panels hold LANES cells, their input, forget, candidate and output gates one after the other, so that a step
 * has all four gates of a cell in registers and never writes them to memory.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#define ROWS 6 /* rows of a product computed at once: 4 * ROWS sums, and what they need beside them, fill the registers */
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
#define DEPTH 256        /* inputs of a product taken at once: a panel of them stays in the first cache */
#define TOKENS_AHEAD 128 /* tokens, about, whose inputs are multiplied before the steps that need them */

typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
#define INLINE static inline __attribute__((always_inline))

INLINE vec load(const float *from) { return *(const vec *)from; }
INLINE void store(float *to, vec value) { *(vec *)to = value; }
INLINE vec all(float value) { return value - (vec){0}; }
/* A comparison with something that is no number is false, and leaves it what it is. */
INLINE vec choose(ivec which, vec yes, vec no) { return (vec)((which & (ivec)yes) | (~which & (ivec)no)); }
INLINE vec at_most(vec x, vec bound) { return choose(x > bound, bound, x); }
INLINE vec at_least(vec x, vec bound) { return choose(x < bound, bound, x); }

/* exp(x), within two units of the last place; x is held between -87 and 87, where a float still has an answer. */
INLINE vec exponential(vec x) {
    const vec rounder = all(12582912.0f); /* 1.5 * 2^23: adding it rounds to a whole number */
    x = at_least(at_most(x, all(87.0f)), all(-87.0f));
    vec shifted = x * 1.44269504088896341f + rounder;
    vec n = shifted - rounder;
    vec r = x - n * 0.693359375f + n * 2.12194440e-4f; /* ln 2 in two parts, the first of few bits */
    vec p = r * 1.9875691500e-4f + 1.3981999507e-3f; /* Cephes' polynomial */
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
    ivec power = ((ivec)shifted - (ivec)rounder) << 23;
    return (vec)((ivec)p + power);
}

INLINE vec sigmoid(vec x) { return 1.0f / (1.0f + exponential(-x)); }

/* sum[m][j] += packed rows' inputs times a panel's columns. */
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

/* Rows of inputs as `accumulate` reads them: [block of ROWS][input][row]. */
static void pack_rows(const float *a, long stride, long rows, long depth, float *packed) {
    for (long row = 0; row < rows; row++) {
        float *to = packed + row / ROWS * ROWS * depth + row % ROWS;
        for (long k = 0; k < depth; k++) to[k * ROWS] = a[row * stride + k];
    }
}

/* `rows` is a constant wherever this is used, so that its loops become straight code. */
INLINE void product_block(const int rows, const float *a, const float *panel, long depth, const float *start,
                          long start_stride, float *out, long out_stride, long columns, float clip) {
    /* What came before is added last: shorter chains of sums lose fewer bits. */
    vec sum[ROWS][4];
    float edge[PANEL] = {0};
    for (int m = 0; m < rows; m++)
        for (int j = 0; j < 4; j++) sum[m][j] = all(0.0f);
    accumulate(sum, rows, a, panel, depth);
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

/* Not inlined: among other things' values the sums would not all stay in registers. */
static __attribute__((noinline)) void product_rows(long rows, const float *a, const float *panel, long depth,
                                                   const float *start, long start_stride, float *out, long out_stride,
                                                   long columns, float clip) {
#define BLOCK(n) product_block(n, a, panel, depth, start, start_stride, out, out_stride, columns, clip)
    switch (rows) {
    case 1: BLOCK(1); break;
    case 2: BLOCK(2); break;
#if ROWS > 3
    case 3: BLOCK(3); break;
    case 4: BLOCK(4); break;
    case 5: BLOCK(5); break;
#endif
    default: BLOCK(ROWS);
    }
#undef BLOCK
}

/* From the gates of some rows' cells, the cells anew and what they let out. */
static __attribute__((noinline)) void step_cells(long rows, const float *gates, float *cell, float *hidden, long stride,
                                                 float clip) {
    for (long m = 0; m < rows; m++, gates += PANEL, cell += stride, hidden += stride) {
        const vec input = exponential(-load(gates)), candidate = exponential(-2.0f * load(gates + 2 * LANES));
        /* sigmoid(input) * tanh(candidate), with one division */
        const vec added = (1.0f - candidate) / ((1.0f + input) * (1.0f + candidate));
        vec c = load(cell) * sigmoid(load(gates + LANES)) + added;
        c = at_least(at_most(c, all(clip)), all(-clip));
        store(cell, c);
        const vec output = exponential(-load(gates + 3 * LANES)), squashed = exponential(-2.0f * c);
        store(hidden, (1.0f - squashed) / ((1.0f + output) * (1.0f + squashed)));
    }
}

static void product(const float *a, long stride, const float *packed, const float *bias, float *out, long out_stride,
                    long rows, long depth, long columns, float clip, float *scratch) {
    for (long first = 0; first < depth; first += DEPTH) {
        const long some = depth - first < DEPTH ? depth - first : DEPTH;
        const float bound = first + some == depth ? clip : INFINITY;
        pack_rows(a + first, stride, rows, some, scratch);
        for (long column = 0; column < columns; column += PANEL) {
            const float *panel = packed + column * depth + first * PANEL;
            for (long row = 0; row < rows; row += ROWS) {
                float *to = out + row * out_stride + column;
                const float *start = first ? to : bias + column;
                product_rows(rows - row, scratch + row * some, panel, some, start, first ? out_stride : 0, to, out_stride,
                             columns - column, bound);
            }
        }
    }
}

static long blocks_of_rows(long rows) { return (rows + ROWS - 1) / ROWS * ROWS; }

int elmo_lanes(void) { return LANES; }

/* out = a @ weights + bias, held between -clip and clip. 0, or 1 where there is no memory. */
int elmo_product(const float *a, const float *packed, const float *bias, float *out, long rows, long depth,
                 long columns, float clip) {
    float *scratch = malloc(blocks_of_rows(rows) * (depth < DEPTH ? depth : DEPTH) * sizeof(float) + 1);
    if (!scratch) return 1;
    product(a, depth, packed, bias, out, columns, rows, depth, columns, clip, scratch);
    free(scratch);
    return 0;
}

/* One LSTM layer over a packed batch; see ProjectedLstm.forward. `state` and `cell` are overwritten. */
int elmo_lstm(const float *x, const int64_t *step_sizes, long steps, const float *by_input, const float *bias,
              const float *recurrent, const float *projection, const float *zeros, long input_dim, long cell_dim,
              long state_dim, float cell_clip, float state_clip, float *state, float *cell, float *outputs) {
    const long cells = (cell_dim + LANES - 1) / LANES * LANES, gates = 4 * cells;
    long most = 0, sentences = steps ? step_sizes[0] : 0;
    for (long step = 0, ahead = 0; step < steps; step++) {
        ahead = ahead >= TOKENS_AHEAD ? 0 : ahead;
        ahead += step_sizes[step];
        most = ahead > most ? ahead : most;
    }
    const long widest = input_dim > cells ? input_dim : cells, wide = widest > state_dim ? widest : state_dim;
    float *from_input = malloc(most * gates * sizeof(float) + 1);
    float *rows = malloc(blocks_of_rows(most) * (wide < DEPTH ? wide : DEPTH) * sizeof(float) + 1);
    float *states = malloc(blocks_of_rows(sentences) * state_dim * sizeof(float) + 1);
    float *hidden = malloc(sentences * cells * sizeof(float) + 1);
    float *memory = calloc(sentences * cells + 1, sizeof(float));
    const int failed = !from_input || !rows || !states || !hidden || !memory;
    if (failed) goto end;
    for (long s = 0; s < sentences; s++) memcpy(memory + s * cells, cell + s * cell_dim, cell_dim * sizeof(float));

    for (long step = 0, ahead = 0, used = 0; step < steps; step++) {
        const long size = step_sizes[step];
        if (used == ahead) { /* the inputs of the next steps, all in one product */
            used = ahead = 0;
            for (long next = step; next < steps && ahead < TOKENS_AHEAD; next++) ahead += step_sizes[next];
            product(x, input_dim, by_input, bias, from_input, gates, ahead, input_dim, gates, INFINITY, rows);
            x += ahead * input_dim;
        }
        pack_rows(state, state_dim, size, state_dim, states);
        for (long column = 0; column < gates; column += PANEL) {
            const float *panel = recurrent + column * state_dim;
            for (long row = 0; row < size; row += ROWS) {
                const long some = size - row < ROWS ? size - row : ROWS, at = row * cells + column / 4;
                float sums[ROWS * PANEL];
                product_rows(some, states + row * state_dim, panel, state_dim,
                             from_input + (used + row) * gates + column, gates, sums, PANEL, PANEL, INFINITY);
                step_cells(some, sums, memory + at, hidden + at, cells, cell_clip);
            }
        }
        product(hidden, cells, projection, zeros, state, state_dim, size, cell_dim, state_dim, state_clip, rows);
        memcpy(outputs, state, size * state_dim * sizeof(float));
        outputs += size * state_dim;
        used += size;
    }
    for (long s = 0; s < sentences; s++) memcpy(cell + s * cell_dim, memory + s * cells, cell_dim * sizeof(float));
end:
    free(from_input), free(rows), free(states), free(hidden), free(memory);
    return failed;
}

/* The largest value of each filter over all windows of each word, behind relu or tanh.
 *
 * A convolution of character vectors is a sum over the window's characters of what each gives at its place, and that is
 * a table: tables[place][character][filter], of a multiple of PANEL filters, of which `count` are real. Windows behind
 * a word cover padding alone, and one of them stands for all.
 */
void elmo_windows(const int64_t *ids, long words, long characters, int64_t padding, const float *tables,
                  const float *bias, long width, long n_characters, long count, int squash, float *out,
                  long out_stride) {
    const long filters = (count + PANEL - 1) / PANEL * PANEL;
    for (long column = 0; column < count; column += PANEL) {
        for (long word = 0; word < words; word++) {
            const int64_t *spelling = ids + word * characters;
            long last = characters;
            while (last > 0 && spelling[last - 1] == padding) last--;
            last = last < characters - width ? last : characters - width;
            vec best[4];
            for (int j = 0; j < 4; j++) best[j] = all(-INFINITY);
            for (long at = 0; at <= last; at++) {
                vec sum[4];
                for (int j = 0; j < 4; j++) sum[j] = load(bias + column + j * LANES);
                for (long place = 0; place < width; place++) {
                    const float *given = tables + (place * n_characters + spelling[at + place]) * filters + column;
                    for (int j = 0; j < 4; j++) sum[j] += load(given + j * LANES);
                }
                /* what is no number stays: whoever meets it shall see it */
                for (int j = 0; j < 4; j++) best[j] = choose(~(sum[j] <= best[j]), sum[j], best[j]);
            }
            float edge[PANEL];
            for (int j = 0; j < 4; j++) {
                const vec e = exponential(-2.0f * best[j]), tanh = (1.0f - e) / (1.0f + e);
                const vec activated = squash ? tanh : at_least(best[j], all(0.0f));
                store(edge + j * LANES, activated);
            }
            const long some = count - column < PANEL ? count - column : PANEL;
            memcpy(out + word * out_stride + column, edge, some * sizeof(float));
        }
    }
}

/* x = gate * relu(transformed) + (1 - gate) * x with gate = sigmoid(carry), value by value. */
void elmo_highway(const float *carry, const float *transformed, float *x, long n) {
    for (long i = 0; i < n; i += LANES) {
        const long some = (n - i < LANES ? n - i : LANES) * sizeof(float);
        vec c = {0}, t = {0}, kept = {0};
        memcpy(&c, carry + i, some), memcpy(&t, transformed + i, some), memcpy(&kept, x + i, some);
        t = at_least(t, all(0.0f));
        kept += sigmoid(c) * (t - kept);
        memcpy(x + i, &kept, some);
    }
}
