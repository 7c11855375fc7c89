#include "vectors/vectors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "pool/blocks.h"

namespace vs {
namespace {

constexpr int64_t kPiece = 16384;  // numbers summed by one task

// q += a x, then the sum of q y (or of q q) over a piece; null: left out.
struct Piece {
    int64_t n;
    double a;
    const double *x, *y, *scaled;
    double factor, *q, *sums;
};

void piece_task(void* context, int64_t task, int) {
    const Piece& p = *static_cast<const Piece*>(context);
    const int64_t from = task * kPiece, to = std::min(p.n, from + kPiece);
    if (p.x) {
        for (int64_t i = from; i < to; ++i) p.q[i] += p.a * p.x[i];
    }
    if (p.factor != 1.0 || p.scaled) {
        for (int64_t i = from; i < to; ++i) p.q[i] *= p.factor * (p.scaled ? p.scaled[i] : 1.0);
    }
    if (p.y == nullptr) return;
    // Eight sums side by side: a fixed order that needs no permission to reorder.
    double s[8] = {};
    int64_t i = from;
    for (; i + 8 <= to; i += 8) {
        for (int64_t k = 0; k < 8; ++k) s[k] += p.q[i + k] * p.y[i + k];
    }
    for (int64_t k = 0; i < to; ++i, ++k) s[k] += p.q[i] * p.y[i];
    p.sums[task] = ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

// Numbers one by one, a piece a task.
template <class Act>
void each_piece(int64_t n, Vectors& v, const Act& act) {
    run_blocks(*v.pool, "vectors", n, kPiece, v.threads, v.control, act);
}

// A number so large that its unit is that of a half as large as x pushes all digits out that the
// half has not: exponents are 2^-14 at least, and 10 bits follow the first.
double as_half(double x) {
    constexpr double kLargest = 65504.0;
    constexpr uint64_t kExponent = uint64_t{0x7ff} << 52, kLeast = uint64_t{1023 - 14} << 52;
    x = std::clamp(x, -kLargest, kLargest);
    uint64_t bits = 0;
    std::memcpy(&bits, &x, sizeof bits);
    bits = std::max(bits & kExponent, kLeast) + (uint64_t{52 - 10} << 52) + (uint64_t{1} << 51);
    double large = 0.0;
    std::memcpy(&large, &bits, sizeof large);
    return (x + large) - large;
}

double run_pieces(Piece& p, std::vector<double>& sums, Vectors& v) {
    const int64_t pieces = (p.n + kPiece - 1) / kPiece;
    sums.assign(static_cast<size_t>(pieces), 0.0);
    p.sums = sums.data();
    v.pool->run_plan(Plan("vectors", pieces), piece_task, &p, v.threads, v.control);
    double total = 0.0;
    for (double s : sums) total += s;
    return total;
}

}  // namespace

void Vectors::mean(int64_t n, const double* x, const double* late, double count, double* out) {
    each_piece(n, *this, [=](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) out[i] = x[i] - late[i] / count;
    });
}

void Vectors::halves(int64_t n, const double* x, float* out) {
    each_piece(n, *this, [=](int64_t from, int64_t to) {
        for (int64_t i = from; i < to; ++i) out[i] = static_cast<float>(as_half(x[i]));
    });
}

double Vectors::dot(const double* x, const double* y, int64_t n) {
    std::vector<double> sums;
    Piece p{n, 0.0, nullptr, y, nullptr, 1.0, const_cast<double*>(x), nullptr};
    return run_pieces(p, sums, *this);
}

void Vectors::direction(int64_t n, int m, const int64_t* order, const double* s, const double* y,
                        const double* sy, double scale, const double* diagonal, const double* g,
                        double* d) {
    std::vector<double> sums, alpha(static_cast<size_t>(m));
    for (int64_t i = 0; i < n; ++i) d[i] = -g[i];
    Piece p{n, 0.0, nullptr, nullptr, nullptr, 1.0, d, nullptr};
    for (int j = m - 1; j >= 0; --j) {
        p.y = s + order[j] * n;
        const double a = run_pieces(p, sums, *this) / sy[order[j]];
        alpha[static_cast<size_t>(j)] = a;
        p.x = y + order[j] * n;
        p.a = -a;
    }
    p.factor = scale;
    p.scaled = diagonal;
    for (int j = 0; j < m; ++j) {
        p.y = y + order[j] * n;
        const double b = run_pieces(p, sums, *this) / sy[order[j]];
        p.factor = 1.0;
        p.scaled = nullptr;
        p.x = s + order[j] * n;
        p.a = alpha[static_cast<size_t>(j)] - b;
    }
    p.y = nullptr;
    run_pieces(p, sums, *this);
}

}  // namespace vs
