// Marginals of chains and trees within a tolerance that is proved, by messages that read a few rows
// and columns of a large table (CERTIFICATES, sections 1 to 4 and 10). Numbers are floats.
//
// A pair of rows (l, e) and a radius g *enclose* x >= 0 if there are s > 0 and |d(k)| <= g / 2 with
//   s e^d(k) l(k) <= x(k) <= s e^d(k) (l(k) + e(k)).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "pool/pool.h"
#include "simd/level.h"

namespace vs::supports {

// The bounds of entries that a message does not read, in one direction: W(i, k) = r(i) c(k) +
// above - below. Norms are of the columns k of `above` and `below`; weights are 1 / size(i).
struct Norms {
    const float *r, *c;
    const float *above_two, *above_sum, *above_weighted, *below_two, *below_sum;
    const float* size;  // 2-norm of row i of `above`
};
struct Measured {
    std::vector<float> r, c, above_two, above_sum, above_weighted, below_two, below_sum, size;
    Norms norms() const {
        return {r.data(),
                c.data(),
                above_two.data(),
                above_sum.data(),
                above_weighted.data(),
                below_two.data(),
                below_sum.data(),
                size.data()};
    }
};

// exp(transition - shift), padded with zeros to kp columns, and its transpose.
struct Table {
    int64_t k = 0, kp = 0;
    double shift = 0.0;
    std::vector<float> rows, columns;  // [from][to], [to][from]: 8 K^2 bytes
    Measured forward, backward;
    // Tests make norms, and the share that a message keeps from its radius, too small.
    double norms = 1.0, delta = 1.0;
};

// The lowest exponential: what is smaller counts as slack.
constexpr float kBottom = 1.6e-18f;  // exp(-41)
constexpr double kBottomLog = -41.0;

// Where variables stand: children before parents, all that lies below one right before it. So a
// chain is a tree whose root is its last variable.
struct Order {
    bool downward = false;          // the table goes from parents to children
    std::vector<int64_t> offset;    // (B + 1,) of components
    std::vector<int64_t> variable;  // (N,) at each position
    std::vector<int32_t> size;      // (N,) of what lies below, with the position
    std::vector<int32_t> slot;      // (N,) memory of the message from above
    std::vector<int32_t> side;      // (N,) memory of the message to a parent of several; -1: none
    std::vector<int64_t> slots, sides;  // (B,) how many a component needs

    int64_t n_components() const { return static_cast<int64_t>(offset.size()) - 1; }
    int64_t length(int64_t component) const {
        const auto at = static_cast<std::size_t>(component);
        return offset[at + 1] - offset[at];
    }
};

struct Problem {
    const void *unary, *start, *end;  // (N, K), (K,) or null
    const uint8_t* allowed;           // (N, K) or null
    const Order* order;
    bool single;                // scores are floats
    const int64_t* components;  // those to answer
    int64_t n_components;
    double tol;
    const double* price;    // (B,) of a message of the other route, in rows of the table
    const int64_t* budget;  // (B,) or null: rows that may be read in all, a column being two
    // (B, 2) or null, for windows of longer chains: radii of what the first position has from below
    // beside its scores, and the last one from above. Positions may be off by more than `tol`.
    const double* entered;
};

// All but `taken` and `counts` say something of components that were taken only.
struct Answer {
    void* marginals;                 // (N, K), of the type of the scores
    double *radius, *slack, *error;  // (N,)
    double *lower, *upper;           // (B,) of log Z
    uint8_t* taken;                  // (B,)
    int64_t* counts;                 // (B, 3): rows, columns and repairs
};

// One message for tests, x -> y = (x W) weight, that reads rows and columns above given shares,
// whatever else is lost; then the columns of some labels again. All rows are (kp,).
struct Trial {
    bool backward;
    const float *low, *slack, *weight;
    double radius, share;
    float *yl, *ye;
    const int32_t* again;
    int64_t n_again;
};

// The product of two enclosures for tests, rows (kp,). The factor that it was multiplied by is
// returned, 0 where floats do not hold it.
struct Pair {
    const float *xl, *xe, *yl, *ye;
    double xg, yg;
    float *l, *e;
    double g;
};

// The outcome of a message.
struct Step {
    bool ok = false;
    double radius = 0.0, lost = 0.0;  // lost: by how much it may have moved s, at most
    double scale = 0.0;               // logarithm of the factor that the rows want
    int64_t rows = 0, columns = 0, looks = 0;
};

// A position's numbers beside its rows.
struct Node {
    double g, total;                     // of what it knows from below
    double factor, widened;              // of the message to its parent
    double lift, side_g;                 // of that in the product of several
    double above_g;                      // of the message from above
    double x_g, x_total;                 // of what that was sent of
    double above_factor, above_widened;  // of that message
};

// The memory of components. SIMD levels allocate nothing: what the standard library makes for one
// of them could be linked into others.
struct Space {
    int64_t positions, n_rows;
    std::unique_ptr<float[]> rows;
    std::unique_ptr<int32_t[]> numbers;
    std::unique_ptr<double[]> sums;
    std::unique_ptr<Node[]> nodes;
    // Rows beside those of the positions: of a message, the marginal, a product.
    static constexpr int64_t kOther = 7;
    Space(int64_t n, int64_t row_count, int64_t kp)
        : positions(n),
          n_rows(row_count),
          rows(new float[static_cast<std::size_t>((row_count + kOther) * kp)]),
          numbers(new int32_t[static_cast<std::size_t>(3 * kp + 8 + n)]),
          sums(new double[static_cast<std::size_t>(3 * kp + 8)]),
          nodes(new Node[static_cast<std::size_t>(n)]) {}
};

// The output of `measure`, (kp,) zeros each.
struct Sums {
    float *above_two, *above_sum, *above_weighted, *below_two, *below_sum, *size;
};

struct Level {
    int64_t (*padded)(int64_t labels);
    void (*exponentials)(const double* scores, double shift, int64_t n, float* out);
    void (*measure)(const float* rows, int64_t k, int64_t kp, const float* r, const float* c,
                    Sums out);
    void (*component)(const Problem& p, const Table& t, const Answer& a, int64_t number,
                      Space& space, Control* control, bool caller);
    Step (*message)(const Table& t, const Trial& trial, Space& space);
    double (*product)(int64_t kp, Pair* pair);
};

// False: the table has entries so small beside the largest that floats lose them.
bool make(const void* transition, bool single, int64_t labels, Table* table);
void infer(const Problem& p, const Table& t, const Answer& a, const PoolApi& pool, int threads,
           Control* control);
Step message(const Table& t, const Trial& trial);
double product(const Table& t, Pair* pair);
// parent: (N,) of each variable, -1 at roots, whose order is that of components. Null: chains.
void place(const int64_t* parent, const int64_t* offset, int64_t count, Order* order);
void use_simd(const SimdApi* simd) noexcept;

}  // namespace vs::supports
