/* The biLM on a CPU: products with packed weights, LSTM steps, character convolutions, highways.
 *
 * Values are summed in one fixed order (see panels.h), so the layers of a sentence have the same bits in any batch.
 * Nothing here starts threads; callers may run calls in parallel. A panel of the LSTM holds LANES cells: their input,
 * forget, candidate and output gates one after the other. So a step has all four gates of a cell in registers and never
 * writes them to memory.
 */
#include "int8.h"

#define TOKENS_AHEAD 128 /* tokens (about) whose inputs are multiplied ahead of their steps */

/* sigmoid(gate) * tanh(x) with one division.
 *
 * The bounds keep the denominator below e^88, near the largest float. At |2x| = 18 tanh rounds to 1, and sigmoid(-68)
 * is 3e-30. With wider bounds it overflows, and the result is 0 instead of -sigmoid(gate). */
INLINE vec gated_tanh(vec gate, vec x) {
    const vec g = bounded_exponential(-gate, 68.0f), e = bounded_exponential(-2.0f * x, 18.0f);
    return (1.0f - e) / ((1.0f + g) * (1.0f + e));
}

/* Updates the cells of some rows from their gates, and writes their outputs (before the projection) to hidden. */
static __attribute__((noinline)) void step_cells(long rows, const float *gates, float *cell, float *hidden, long stride,
                                                 float clip) {
    for (long m = 0; m < rows; m++, gates += PANEL, cell += stride, hidden += stride) {
        vec c = load(cell) * sigmoid(load(gates + LANES)) + gated_tanh(load(gates), load(gates + 2 * LANES));
        c = at_least(at_most(c, all(clip)), all(-clip));
        store(cell, c);
        store(hidden, gated_tanh(load(gates + 3 * LANES), c));
    }
}

int elmo_lanes(void) { return LANES; }

/* out = a @ weights + bias. Returns 0, or 1 if there is not enough memory. */
int elmo_product(long levels, const float *a, const float *packed, const float *bias, float *out, long rows, long depth,
                 long columns) {
    float *scratch = malloc(scratch_bytes(levels, rows, depth));
    if (!scratch) return 1;
    any_product(levels, a, depth, packed, bias, 0, out, columns, rows, depth, columns, INFINITY, scratch);
    free(scratch);
    return 0;
}

/* One LSTM layer over a packed batch, as ProjectedLstm.forward; overwrites `state` and `cell`. Returns as above.
 *
 * With int8 the projection reads 15 bits: 8 for the hidden vector caused nearly all of the error. */
int elmo_lstm(long int8, const float *x, const int64_t *step_sizes, long steps, const float *by_input,
              const float *bias, const float *recurrent, const float *projection, const float *zeros, long input_dim,
              long cell_dim, long state_dim, float cell_clip, float state_clip, float *state, float *cell,
              float *outputs) {
    const long cells = (cell_dim + LANES - 1) / LANES * LANES, gates = 4 * cells;
    long most = 0, sentences = steps ? step_sizes[0] : 0;
    for (long step = 0, ahead = 0; step < steps; step++) {
        ahead = ahead >= TOKENS_AHEAD ? 0 : ahead;
        ahead += step_sizes[step];
        most = ahead > most ? ahead : most;
    }
    const int levels = int8 ? 127 : 0, fine = int8 ? 16319 : 0;
    const size_t read = scratch_bytes(levels, most, input_dim), projected = scratch_bytes(fine, sentences, cells);
    float *from_input = malloc(most * gates * sizeof(float) + 1);
    float *rows = malloc(read > projected ? read : projected);
    float *states = malloc(int8 ? scratch_bytes(levels, sentences, state_dim)
                                : blocks_of_rows(sentences) * state_dim * sizeof(float) + 1);
    int8_t *quantised = (int8_t *)(states + sentences);
    float *hidden = malloc(sentences * cells * sizeof(float) + 1);
    float *memory = calloc(sentences * cells + 1, sizeof(float));
    const int failed = !from_input || !rows || !states || !hidden || !memory;
    if (failed) goto end;
    for (long s = 0; s < sentences; s++) memcpy(memory + s * cells, cell + s * cell_dim, cell_dim * sizeof(float));

    for (long step = 0, ahead = 0, used = 0; step < steps; step++) {
        const long size = step_sizes[step];
        if (used == ahead) { /* multiply the inputs of the next steps in one product */
            used = ahead = 0;
            for (long next = step; next < steps && ahead < TOKENS_AHEAD; next++) ahead += step_sizes[next];
            any_product(levels, x, input_dim, by_input, bias, 0, from_input, gates, ahead, input_dim, gates, INFINITY,
                        rows);
            x += ahead * input_dim;
        }
        if (int8)
            quantise(state, state_dim, size, state_dim, levels, states, quantised);
        else
            pack_rows(state, state_dim, size, state_dim, states);
        for (long column = 0; column < gates; column += PANEL) {
            const float *panel = recurrent + column * words_of_column(levels, state_dim);
            for (long row = 0; row < size; row += ROWS) {
                const long some = size - row < ROWS ? size - row : ROWS, at = row * cells + column / 4;
                const float *start = from_input + (used + row) * gates + column;
                float sums[ROWS * PANEL];
                if (int8)
                    bytes_rows(some, levels, states + row, quantised + row * deep(state_dim), (const int32_t *)panel,
                               deep(state_dim), start, gates, sums, PANEL, PANEL, INFINITY);
                else
                    product_rows(some, states + row * state_dim, panel, state_dim, start, gates, sums, PANEL, PANEL,
                                 INFINITY);
                step_cells(some, sums, memory + at, hidden + at, cells, cell_clip);
            }
        }
        any_product(fine, hidden, cells, projection, zeros, 0, state, state_dim, size, cell_dim, state_dim, state_clip,
                    rows);
        memcpy(outputs, state, size * state_dim * sizeof(float));
        outputs += size * state_dim;
        used += size;
    }
    for (long s = 0; s < sentences; s++) memcpy(cell + s * cell_dim, memory + s * cells, cell_dim * sizeof(float));
end:
    free(from_input), free(rows), free(states), free(hidden), free(memory);
    return failed;
}

/* The maximum of each filter over all windows of each word, then relu or tanh.
 *
 * A convolution is a sum over the characters of a window. Each summand depends only on the character and its place in
 * the window, so it comes from a table: tables[place][character][filter], with filters padded to a multiple of PANEL
 * (`count` without padding). All windows after a word cover only padding, so one of them is enough.
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
                /* the maximum; a NaN stays, so that callers can detect it */
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

/* x = gate * relu(transformed) + (1 - gate) * x with gate = sigmoid(carry), elementwise. */
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
