/* The loop over the steps of one direction of an LSTM, a highway LSTM or a GRU, forward and back.
 *
 * Rows are packed: step t holds `sizes[t]` sentences from row `starts[t]` on, longest first, and the rows of the same
 * sentences in the previous step begin at `starts[t - 1]`. A step is one product of its rows with the prepared weights
 * (see panels.h), then the cells of each row, LANES at a time. Nothing here starts threads. Functions return 0, or 1 if
 * out of memory.
 */
#include "panels.h"

/* The first n of LANES values, for the last cells of a row whose width is no multiple. Elsewhere `n` is a constant. */
INLINE vec take(const float *from, const long n) {
    vec some = {0};
    if (n == LANES) return load(from);
    memcpy(&some, from, n * sizeof(float));
    return some;
}
INLINE void put(float *to, vec value, const long n) {
    if (n == LANES) store(to, value);
    else memcpy(to, &value, n * sizeof(float));
}
#define ALL_CELLS(function, ...)                                                            \
    do {                                                                                    \
        long at = 0;                                                                        \
        for (; at + LANES <= hidden; at += LANES) function(LANES, at, hidden, __VA_ARGS__); \
        if (at < hidden) function(hidden - at, at, hidden, __VA_ARGS__);                    \
    } while (0)

INLINE vec hyperbolic_tangent(vec x) {
    const vec e = exponential(-2.0f * x);
    return (1.0f - e) / (1.0f + e);
}

/* Weights as panels. The weight of input k for a column is at k * by_input + column * by_column. */
static void prepare(const float *weight, long by_input, long by_column, long depth, long columns, float *panels) {
    for (long first = 0; first < columns; first += PANEL, panels += depth * PANEL)
        for (long j = 0; j < PANEL; j++)
            for (long k = 0; k < depth; k++)
                panels[k * PANEL + j] = first + j < columns ? weight[k * by_input + (first + j) * by_column] : 0.0f;
}

static long room_for_panels(long depth, long columns) { return (columns + PANEL - 1) / PANEL * PANEL * depth; }
static long room_for_rows(long rows, long depth) { return blocks_of_rows(rows) * (depth < DEPTH ? depth : DEPTH); }

int heads_lanes(void) { return LANES; }

/* Applies the nonlinearity to the gates o, i, f, g of one row; computes the cell, its tanh and the state. */
INLINE void lstm_cells(const long n, long at, long hidden, float *gates, const float *before, float *cell,
                       float *squashed, float *state) {
    const vec o = sigmoid(take(gates + at, n)), i = sigmoid(take(gates + hidden + at, n));
    const vec f = sigmoid(take(gates + 2 * hidden + at, n)), g = hyperbolic_tangent(take(gates + 3 * hidden + at, n));
    const vec c = f * take(before + at, n) + i * g, s = hyperbolic_tangent(c);
    put(gates + at, o, n), put(gates + hidden + at, i, n);
    put(gates + 2 * hidden + at, f, n), put(gates + 3 * hidden + at, g, n);
    put(cell + at, c, n), put(squashed + at, s, n), put(state + at, o * s, n);
}

/* Mixes the LSTM's state with the projection of the input, which is before the gate r, and masks the result. */
INLINE void highway_cells(const long n, long at, long hidden, float *gates, const float *mask, float *state) {
    const vec projection = take(gates + at, n), r = sigmoid(take(gates + hidden + at, n));
    put(gates + hidden + at, r, n);
    put(state + at, take(mask + at, n) * (r * take(state + at, n) + (1.0f - r) * projection), n);
}

/* An LSTM without a mask, a highway LSTM with one. */
int heads_lstm_forward(const int32_t *starts, const int32_t *sizes, long steps, long hidden, const float *weight,
                       float *gates, float *cells, float *squashed, float *states, const float *mask) {
    const long columns = (mask ? 5 : 4) * hidden, width = (mask ? 6 : 4) * hidden;
    const long panels = room_for_panels(hidden, columns);
    float *memory = malloc((panels + room_for_rows(sizes[0], hidden) + hidden) * sizeof(float));
    if (!memory) return 1;
    float *zeros = memory + panels, *scratch = zeros + hidden;
    prepare(weight, 1, hidden, hidden, columns, memory);
    memset(zeros, 0, hidden * sizeof(float));
    for (long step = 0; step < steps; step++) {
        const long now = starts[step], past = step ? starts[step - 1] : 0, size = sizes[step];
        float *rows = gates + now * width, *recurrent = rows + width - columns;
        if (step)
            product(states + past * hidden, hidden, memory, recurrent, width, recurrent, width, size, hidden, columns,
                    INFINITY, scratch);
        for (long row = 0; row < size; row++) {
            const long to = (now + row) * hidden;
            const float *before = step ? cells + (past + row) * hidden : zeros;
            float *of_row = rows + row * width;
            ALL_CELLS(lstm_cells, of_row + width - 4 * hidden, before, cells + to, squashed + to, states + to);
            if (mask) ALL_CELLS(highway_cells, of_row, mask + row * hidden, states + to);
        }
    }
    free(memory);
    return 0;
}

/* `carried` holds the gradient of this row's cell from the next step; it is replaced by that for the previous step. */
INLINE void lstm_gradients(const long n, long at, long hidden, const float *gates, const float *before,
                           const float *squashed, const float *grad, float *carried, float *to) {
    const vec o = take(gates + at, n), i = take(gates + hidden + at, n);
    const vec f = take(gates + 2 * hidden + at, n), g = take(gates + 3 * hidden + at, n);
    const vec s = take(squashed + at, n), state = take(grad + at, n);
    const vec cell = state * (o * (1.0f - s * s)) + take(carried + at, n);
    put(to + at, state * (s * o * (1.0f - o)), n);
    put(to + hidden + at, cell * (g * i * (1.0f - i)), n);
    put(to + 2 * hidden + at, cell * (take(before + at, n) * f * (1.0f - f)), n);
    put(to + 3 * hidden + at, cell * (i * (1.0f - g * g)), n);
    put(carried + at, cell * f, n);
}

/* `grad`, of the masked state, is replaced by that of the LSTM's state. */
INLINE void highway_gradients(const long n, long at, long hidden, const float *gates, const float *mask,
                              const float *squashed, float *grad, float *to) {
    const vec projection = take(gates + at, n), r = take(gates + hidden + at, n);
    const vec state = take(gates + 2 * hidden + at, n) * take(squashed + at, n);
    const vec mixed = take(grad + at, n) * take(mask + at, n), through = mixed * r;
    put(to + at, mixed - through, n);
    put(to + hidden + at, through * ((1.0f - r) * (state - projection)), n);
    put(grad + at, through, n);
}

int heads_lstm_backward(const int32_t *starts, const int32_t *sizes, long steps, long hidden, const float *weight,
                        const float *gates, const float *cells, const float *squashed, float *grad, float *grad_gates,
                        const float *mask) {
    const long columns = (mask ? 5 : 4) * hidden, width = (mask ? 6 : 4) * hidden;
    const long panels = room_for_panels(columns, hidden), held = sizes[0] * hidden;
    float *memory = malloc((panels + room_for_rows(sizes[0], columns) + held + hidden) * sizeof(float));
    if (!memory) return 1;
    float *carried = memory + panels, *zeros = carried + held, *scratch = zeros + hidden;
    prepare(weight, hidden, 1, columns, hidden, memory);
    memset(carried, 0, (held + hidden) * sizeof(float));
    for (long step = steps - 1; step >= 0; step--) {
        const long now = starts[step], past = step ? starts[step - 1] : 0, size = sizes[step];
        for (long row = 0; row < size; row++) {
            const long from = (now + row) * hidden;
            const float *before = step ? cells + (past + row) * hidden : zeros;
            const float *of_row = gates + (now + row) * width;
            float *to = grad_gates + (now + row) * width;
            if (mask) ALL_CELLS(highway_gradients, of_row, mask + row * hidden, squashed + from, grad + from, to);
            ALL_CELLS(lstm_gradients, of_row + width - 4 * hidden, before, squashed + from, grad + from,
                      carried + row * hidden, to + width - 4 * hidden);
        }
        if (step)
            product(grad_gates + now * width + width - columns, width, memory, grad + past * hidden, hidden,
                    grad + past * hidden, hidden, size, columns, hidden, INFINITY, scratch);
    }
    free(memory);
    return 0;
}

/* Computes the gates r, z, n of one row; `by_state` is the previous state's part, whose share of n goes to `added`. */
INLINE void gru_cells(const long n, long at, long hidden, float *gates, const float *by_state, const float *before,
                      float *added, float *state) {
    const vec r = sigmoid(take(gates + at, n) + take(by_state + at, n));
    const vec z = sigmoid(take(gates + hidden + at, n) + take(by_state + hidden + at, n));
    const vec to_candidate = take(by_state + 2 * hidden + at, n);
    const vec candidate = hyperbolic_tangent(take(gates + 2 * hidden + at, n) + r * to_candidate);
    put(gates + at, r, n), put(gates + hidden + at, z, n), put(gates + 2 * hidden + at, candidate, n);
    put(added + at, to_candidate, n);
    put(state + at, candidate + z * (take(before + at, n) - candidate), n);
}

int heads_gru_forward(const int32_t *starts, const int32_t *sizes, long steps, long hidden, const float *weight,
                      const float *bias, float *gates, float *added, float *states) {
    const long width = 3 * hidden, panels = room_for_panels(hidden, width);
    const long held = sizes[0] * width;
    float *memory = malloc((panels + room_for_rows(sizes[0], hidden) + held + hidden) * sizeof(float));
    if (!memory) return 1;
    float *sums = memory + panels, *zeros = sums + held, *scratch = zeros + hidden;
    prepare(weight, 1, hidden, hidden, width, memory);
    memset(zeros, 0, hidden * sizeof(float));
    for (long step = 0; step < steps; step++) {
        const long now = starts[step], past = step ? starts[step - 1] : 0, size = sizes[step];
        if (step)
            product(states + past * hidden, hidden, memory, bias, 0, sums, width, size, hidden, width, INFINITY,
                    scratch);
        for (long row = 0; row < size; row++) {
            const long to = (now + row) * hidden;
            const float *by_state = step ? sums + row * width : bias;
            const float *before = step ? states + (past + row) * hidden : zeros;
            ALL_CELLS(gru_cells, gates + 3 * to, by_state, before, added + to, states + to);
        }
    }
    free(memory);
    return 0;
}

/* `earlier` is the gradient of the previous state. */
INLINE void gru_gradients(const long n, long at, long hidden, const float *gates, const float *added,
                          const float *before, const float *grad, float *earlier, float *to) {
    const vec r = take(gates + at, n), z = take(gates + hidden + at, n), candidate = take(gates + 2 * hidden + at, n);
    const vec state = take(grad + at, n), to_n = state * ((1.0f - z) * (1.0f - candidate * candidate));
    put(to + at, to_n * (take(added + at, n) * r * (1.0f - r)), n);
    put(to + hidden + at, state * ((take(before + at, n) - candidate) * z * (1.0f - z)), n);
    put(to + 2 * hidden + at, to_n * r, n);
    put(earlier + at, take(earlier + at, n) + state * z, n);
}

int heads_gru_backward(const int32_t *starts, const int32_t *sizes, long steps, long hidden, const float *weight,
                       const float *gates, const float *states, const float *added, float *grad,
                       float *grad_recurrent) {
    const long width = 3 * hidden, panels = room_for_panels(width, hidden);
    float *memory = malloc((panels + room_for_rows(sizes[0], width) + 2 * hidden) * sizeof(float));
    if (!memory) return 1;
    float *zeros = memory + panels, *nowhere = zeros + hidden, *scratch = nowhere + hidden;
    prepare(weight, hidden, 1, width, hidden, memory);
    memset(zeros, 0, 2 * hidden * sizeof(float));
    for (long step = steps - 1; step >= 0; step--) {
        const long now = starts[step], past = step ? starts[step - 1] : 0, size = sizes[step];
        for (long row = 0; row < size; row++) {
            const long from = (now + row) * hidden;
            const float *before = step ? states + (past + row) * hidden : zeros;
            float *earlier = step ? grad + (past + row) * hidden : nowhere;
            ALL_CELLS(gru_gradients, gates + 3 * from, added + from, before, grad + from, earlier,
                      grad_recurrent + 3 * from);
        }
        if (step)
            product(grad_recurrent + now * width, width, memory, grad + past * hidden, hidden, grad + past * hidden,
                    hidden, size, width, hidden, INFINITY, scratch);
    }
    free(memory);
    return 0;
}
