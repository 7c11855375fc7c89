#include "dual/active_set.h"

#include "messages/scopes.h"

namespace vs::dual {
namespace {

constexpr double kNear = 1e-11;  // rounding of weights and gains
constexpr double kPivot = 1e-5;  // a corner that lies in the affine hull of the others

constexpr int64_t kRenew = 200;  // drops after which factors are made anew

// The inner product in four sums, which do not wait for one another.
inline double product(const double* a, const double* b, int64_t n) {
    double s[4] = {};
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        for (int64_t j = 0; j < 4; ++j) s[j] += a[i + j] * b[i + j];
    }
    for (; i < n; ++i) s[0] += a[i] * b[i];
    return (s[0] + s[1]) + (s[2] + s[3]);
}

}  // namespace

double ActiveSet::score() const {
    double total = 0.0;
    for (int64_t i = 0; i < corners(); ++i) total += weight_[at(i)] * score_[at(i)];
    return total;
}

double ActiveSet::dot(int64_t i, const double* a) const {
    double total = 0.0;
    for (int32_t j : on_[at(i)]) total += a[j];
    return total;
}

void ActiveSet::point(int64_t k, double* q) const {
    std::fill(q, q + k, 0.0);
    for (int64_t i = 0; i < corners(); ++i) {
        for (int32_t j : on_[at(i)]) q[j] += weight_[at(i)];
    }
}

// The row of the Cholesky factors of gram + 1 that belongs to the last corner.
void ActiveSet::factor(int64_t i) {
    std::vector<double>& row = lower_[at(i)];
    row.assign(gram_[at(i)].begin(), gram_[at(i)].end());
    for (double& x : row) x += 1.0;
    for (int64_t j = 0; j < i; ++j) {
        row[at(j)] =
            (row[at(j)] - product(lower_[at(j)].data(), row.data(), j)) / lower_[at(j)][at(j)];
    }
    const double left = row[at(i)] - product(row.data(), row.data(), i);
    row[at(i)] = std::sqrt(std::max(left, kPivot * kPivot));
}

// The corner stands in y_, too.
void ActiveSet::append(const std::vector<int32_t>& on, double score) {
    std::vector<double> row;
    for (const std::vector<int32_t>& other : on_) {
        int64_t common = 0;
        for (int32_t j : other) common += y_[at(j)];
        row.push_back(static_cast<double>(common));
    }
    row.push_back(static_cast<double>(on.size()));
    gram_.push_back(std::move(row));
    lower_.emplace_back();
    on_.push_back(on);
    score_.push_back(score);
    weight_.push_back(on_.size() == 1 ? 1.0 : 0.0);
    factor(corners() - 1);
    unit_.clear();
}

// Without row i the factors have an entry above each diagonal behind it; rotations of two columns
// each take these away.
void ActiveSet::drop(int64_t i) {
    for (int64_t r = i + 1; r < corners(); ++r) gram_[at(r)].erase(gram_[at(r)].begin() + i);
    gram_.erase(gram_.begin() + i);
    lower_.erase(lower_.begin() + i);
    on_.erase(on_.begin() + i);
    score_.erase(score_.begin() + i);
    weight_.erase(weight_.begin() + i);
    right_.erase(right_.begin() + i);
    unit_.clear();
    if (++drops_ % kRenew == 0) {
        for (int64_t r = 0; r < corners(); ++r) factor(r);
        return;
    }
    turn_.clear();
    for (int64_t r = i; r < corners(); ++r) {
        double* row = lower_[at(r)].data();
        for (int64_t c = i; c < r; ++c) {
            const auto [cosine, sine] = turn_[at(c - i)];
            const double x = row[c], y = row[c + 1];
            row[c] = cosine * x + sine * y;
            row[c + 1] = cosine * y - sine * x;
        }
        const double length = std::sqrt(row[r] * row[r] + row[r + 1] * row[r + 1]);
        turn_.push_back({row[r] / length, row[r + 1] / length});
        row[r] = length;
        lower_[at(r)].pop_back();
    }
}

// x <- (gram + 1)^-1 x.
void ActiveSet::through(std::vector<double>& x) const {
    const int64_t m = corners();
    for (int64_t i = 0; i < m; ++i) {
        const double* row = lower_[at(i)].data();
        x[at(i)] = (x[at(i)] - product(row, x.data(), i)) / row[i];
    }
    for (int64_t i = m; i-- > 0;) {
        const double* row = lower_[at(i)].data();
        const double own = x[at(i)] /= row[i];
        for (int64_t j = 0; j < i; ++j) x[at(j)] -= row[j] * own;
    }
}

// x: the weights, of this sum, that solve the system for the right side x.
void ActiveSet::solve(std::vector<double>& x, double sum) {
    through(x);
    if (unit_.empty()) {
        unit_.assign(x.size(), 1.0);
        through(unit_);
    }
    double found = 0.0, unit = 0.0;
    for (size_t i = 0; i < x.size(); ++i) found += x[i], unit += unit_[i];
    const double t = (found - sum) / unit;
    for (size_t i = 0; i < x.size(); ++i) x[i] -= t * unit_[i];
}

void ActiveSet::follow(const double* d, int64_t k, double* out) {
    const int64_t m = corners();
    std::vector<double>& w = wanted_;
    w.resize(at(m));
    for (int64_t i = 0; i < m; ++i) w[at(i)] = dot(i, d);
    solve(w, 0.0);
    std::fill(out, out + k, 0.0);
    for (int64_t i = 0; i < m; ++i) {
        for (int32_t j : on_[at(i)]) out[j] += w[at(i)];
    }
}

// Weights move towards `wanted`; the first one that reaches 0 leaves. False: none does.
bool ActiveSet::step() {
    double length = 1.0;
    int64_t leaves = -1;
    for (int64_t i = 0; i < corners(); ++i) {
        if (wanted_[at(i)] >= -kNear) continue;
        const double here = weight_[at(i)] / (weight_[at(i)] - wanted_[at(i)]);
        if (leaves < 0 || here < length) length = here, leaves = i;
    }
    for (int64_t i = 0; i < corners(); ++i) {
        weight_[at(i)] = std::max(0.0, weight_[at(i)] + length * (wanted_[at(i)] - weight_[at(i)]));
    }
    if (leaves < 0) return false;
    drop(leaves);
    double sum = 0.0;
    for (double w : weight_) sum += w;
    for (double& w : weight_) w /= sum;
    return true;
}

bool ActiveSet::nearest(Part* part, const double* a, double share, int limit,
                        const Control* control, double* q) {
    const int64_t k = part->k;
    gain_.resize(at(k));
    y_.resize(at(k));
    const auto join = [&](double own) {
        fresh_.clear();
        for (int64_t j = 0; j < k; ++j) {
            if (y_[at(j)]) fresh_.push_back(static_cast<int32_t>(j));
        }
        double sum = own * share;
        for (int32_t j : fresh_) sum += a[j];
        return sum;
    };
    if (on_.empty()) {
        const double own = part->best(a, share, nullptr, y_.data());
        if (!(own > -INFINITY)) return false;
        join(own);
        append(fresh_, own);
    }
    right_.resize(at(corners()));
    double size = 1.0;
    for (int64_t i = 0; i < corners(); ++i) {
        right_[at(i)] = dot(i, a) + share * score_[at(i)];
        size = std::max(size, std::fabs(right_[at(i)]));
    }
    for (int joined = 0;;) {
        for (;;) {
            wanted_ = right_;
            solve(wanted_, 1.0);
            if (!step()) break;
        }
        double sum = 0.0;
        for (double& w : wanted_) sum += w = std::max(w, 0.0);
        for (int64_t i = 0; i < corners(); ++i) weight_[at(i)] = wanted_[at(i)] / sum;
        point(k, q);
        if (joined++ == limit) return true;
        if (control && part->large() && messages::cancelled(control)) return false;
        for (int64_t j = 0; j < k; ++j) gain_[at(j)] = a[j] - q[j];
        double level = 0.0;  // of all active corners, weighted against rounding
        for (int64_t i = 0; i < corners(); ++i) {
            level += weight_[at(i)] * (dot(i, gain_.data()) + share * score_[at(i)]);
        }
        const double own = part->best(gain_.data(), share, nullptr, y_.data());
        if (!(own > -INFINITY)) return false;
        const double right = join(own);
        double beyond = own * share - level;
        for (int32_t j : fresh_) beyond += gain_[at(j)];
        if (beyond <= kNear * size || std::find(on_.begin(), on_.end(), fresh_) != on_.end()) {
            return true;
        }
        right_.push_back(right);
        append(fresh_, own);
        const double pivot = lower_.back().back();
        if (pivot > kPivot) continue;
        if (part->plain()) {  // it scores as they do, up to rounding
            drop(corners() - 1);
            return true;
        }
        // It lies in the affine hull of the others, y = sum_i d_i y_i, and scores more: weights go
        // over to it until another one has none.
        std::vector<double> d(lower_.back().begin(), lower_.back().end() - 1);
        const int64_t m = corners() - 1;
        for (int64_t i = m; i-- > 0;) {
            d[at(i)] /= lower_[at(i)][at(i)];
            for (int64_t j = 0; j < i; ++j) d[at(j)] -= lower_[at(i)][at(j)] * d[at(i)];
        }
        double length = INFINITY;
        int64_t leaves = -1;
        for (int64_t i = 0; i < m; ++i) {
            if (d[at(i)] > kNear && weight_[at(i)] / d[at(i)] < length) {
                length = weight_[at(i)] / d[at(i)], leaves = i;
            }
        }
        for (int64_t i = 0; i < m; ++i) {
            weight_[at(i)] = std::max(0.0, weight_[at(i)] - length * d[at(i)]);
        }
        weight_[at(m)] = length;
        drop(leaves);
    }
}

}  // namespace vs::dual
