// Marginals of chains within a tolerance that is proved, by messages that read a few rows and
// columns of a large table (CERTIFICATES, sections 1 to 4). Numbers are floats.
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

// What bounds the entries that a message does not read, in one direction: W(i, k) = r(i) c(k) +
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

struct Problem {
    const void *unary, *start, *end;  // (N, K), (K,) or null
    const uint8_t* allowed;           // (N, K) or null
    const int64_t* offset;            // (B + 1,)
    bool single;                      // scores are floats
    const int64_t* sequences;         // those to answer
    int64_t n_sequences;
    double tol;
    const double* price;  // (B,) of a message of the other route, in rows of the table
};

// All but `taken` and `counts` say something of sequences that were taken only.
struct Answer {
    void* marginals;                 // (N, K), of the type of the scores
    double *radius, *slack, *error;  // (N,)
    double *lower, *upper;           // (B,) of log Z
    uint8_t* taken;                  // (B,)
    int64_t* counts;                 // (B, 3): rows, columns and repairs
};

// One message for tests, x -> y = (x W) weight, that reads rows and columns above given shares,
// whatever else is lost. All rows are (kp,).
struct Trial {
    bool backward;
    const float *low, *slack, *weight;
    double radius, share;
    float *yl, *ye;
};

// What a message did.
struct Step {
    bool ok = false;
    double radius = 0.0, lost = 0.0;  // lost: by how much it may have moved s, at most
    double scale = 0.0;               // logarithm of the factor that the rows want
    int64_t rows = 0, columns = 0, looks = 0;
};

// The memory of sequences of up to n positions. SIMD levels allocate nothing: what the standard
// library makes for one of them could be linked into others.
struct Space {
    std::unique_ptr<float[]> rows;
    std::unique_ptr<int32_t[]> numbers;
    std::unique_ptr<double[]> sums;
    Space(int64_t n, int64_t kp)
        : rows(new float[static_cast<std::size_t>((3 * n + 11) * kp)]),
          numbers(new int32_t[static_cast<std::size_t>(3 * kp + 8)]),
          sums(new double[static_cast<std::size_t>(3 * kp + 8 + 4 * n)]) {}
};

// What `measure` fills, (kp,) zeros each.
struct Sums {
    float *above_two, *above_sum, *above_weighted, *below_two, *below_sum, *size;
};

struct Level {
    int64_t (*padded)(int64_t labels);
    void (*exponentials)(const double* scores, double shift, int64_t n, float* out);
    void (*measure)(const float* rows, int64_t k, int64_t kp, const float* r, const float* c,
                    Sums out);
    void (*sequence)(const Problem& p, const Table& t, const Answer& a, int64_t sequence,
                     Space& space, Control* control, bool caller);
    Step (*message)(const Table& t, const Trial& trial, Space& space);
};

// False: the table has entries so small beside the largest that floats lose them.
bool make(const void* transition, bool single, int64_t labels, Table* table);
void infer(const Problem& p, const Table& t, const Answer& a, const PoolApi& pool, int threads,
           Control* control);
Step message(const Table& t, const Trial& trial);
void use_simd(const SimdApi* simd) noexcept;

}  // namespace vs::supports
