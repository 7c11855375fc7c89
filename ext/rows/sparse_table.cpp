#include "rows/sparse_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/at.h"
#include "rows/pack_table.h"

namespace vs {
namespace {

constexpr double kForbidden = -std::numeric_limits<double>::infinity();
// Fewer labels do not pay; nor does a table unless one entry in so many is listed. One that is
// listed costs 8 sequences as much as 16 or so that are not.
constexpr int64_t kLeastSparse = 96, kOneIn = 16;

template <class In>
std::unique_ptr<SparseTable> found(const In* t, int64_t K) {
    constexpr int64_t kSample = 64;
    const int64_t size = K * K, most = size / kOneIn;
    In sample[kSample];
    // Steps of a fraction of the golden ratio: no row or column is looked at twice.
    for (int64_t i = 0; i < kSample; ++i) {
        sample[i] =
            t[static_cast<int64_t>(std::fmod(0.6180339887498949 * static_cast<double>(i), 1.0) *
                                   static_cast<double>(size))];
    }
    std::sort(sample, sample + kSample);
    const In rest = sample[kSample / 2];  // more than half of all are the same
    if (std::count(sample, sample + kSample, rest) < kSample / 2) return nullptr;
    int64_t listed = 0;
    for (int64_t l = 0; l < K && listed <= most; ++l) {
        int64_t here = 0;
        for (int64_t k = 0; k < K; ++k) here += t[l * K + k] != rest;
        listed += here;
    }
    if (listed > most) return nullptr;
    auto table = std::make_unique<SparseTable>();
    table->n_labels = K;
    table->rest = static_cast<double>(rest);
    table->start.reserve(at(K) + 1);
    table->start.push_back(0);
    table->column.reserve(at(listed));
    table->score.reserve(at(listed));
    double top = table->rest;
    for (int64_t l = 0; l < K; ++l) {
        for (int64_t k = 0; k < K; ++k) {
            const In x = t[l * K + k];
            if (x == rest) continue;
            table->column.push_back(static_cast<int32_t>(k));
            table->score.push_back(static_cast<double>(x));
            top = std::max(top, static_cast<double>(x));
        }
        table->start.push_back(static_cast<int64_t>(table->column.size()));
    }
    table->largest = top > kForbidden ? top : 0.0;
    return table;
}

double highest(const std::vector<double>& x) {
    return x.empty() ? 0.0 : *std::max_element(x.begin(), x.end());
}
double lowest(const std::vector<double>& x) {
    return x.empty() ? 0.0 : *std::min_element(x.begin(), x.end());
}

// exp(x - shift), or that times shift - x.
double weight_of(const SparseTable& t, double x, bool depth) {
    if (!(x > kForbidden)) return 0.0;
    const double e = std::exp(x - t.largest);
    return depth ? e * (t.largest - x) : e;
}

// The factors of D: exp(rows - their largest), and exp(rest + that + columns - shift). A depth has
// no rows and columns.
struct DefaultFactors {
    std::vector<double> rows, columns;

    DefaultFactors(const SparseTable& t, bool depth)
        : rows(at(t.n_labels), 1.0), columns(at(t.n_labels)) {
        const double top = highest(t.rows);
        for (size_t i = 0; i < rows.size(); ++i) {
            if (!t.rows.empty()) rows[i] = std::exp(t.rows[i] - top);
            const double more = t.columns.empty() ? 0.0 : t.columns[i];
            columns[i] = weight_of(t, t.rest + top + more, depth);
        }
    }
};

template <class T>
T* copied(const std::vector<double>& x, Scratch& s) {
    T* to = s.array<T>(static_cast<int64_t>(x.size()) + 1);
    for (size_t i = 0; to && i < x.size(); ++i) to[i] = static_cast<T>(x[i]);
    return to;
}

// By column where `turned`; `mine`: factors of the ends that entries are listed for.
template <class T>
void pack_side(const SparseTable& t, bool depth, bool turned, const std::vector<double>& mine,
               const std::vector<double>& others, Scratch& s, SparseSide* out) {
    const int64_t K = t.n_labels, n = t.n_listed();
    int64_t* start = s.array<int64_t>(K + 1);
    int64_t* split = s.array<int64_t>(K);
    int32_t* label = s.array<int32_t>(n + 1);
    T* weight = s.array<T>(n + 1);
    T* own = s.array<T>(n + 1);
    out->left = copied<T>(others, s);
    out->right = copied<T>(mine, s);
    if (s.failed) return;
    std::fill_n(start, K + 1, 0);
    std::fill_n(split, K, 0);
    // Added entries come first: counted, then written.
    const auto each = [&](auto f) {
        for (int64_t l = 0; l < K; ++l) {
            for (int64_t e = t.start[at(l)]; e < t.start[at(l) + 1]; ++e) {
                const int64_t k = t.column[at(e)];
                const int64_t to = turned ? k : l, from = turned ? l : k;
                const double x = weight_of(t, t.score[at(e)], depth);
                f(to, from, x, x - mine[at(to)] * others[at(from)]);
            }
        }
    };
    each([&](int64_t to, int64_t, double, double r) {
        ++start[to + 1];
        split[to] += r >= 0.0;
    });
    for (int64_t k = 0; k < K; ++k) {
        start[k + 1] += start[k];
        split[k] += start[k];
    }
    std::vector<int64_t> plus(start, start + K), minus(split, split + K);
    each([&](int64_t to, int64_t from, double x, double r) {
        const int64_t e = r >= 0.0 ? plus[at(to)]++ : minus[at(to)]++;
        label[e] = static_cast<int32_t>(from);
        weight[e] = static_cast<T>(std::fabs(r));
        own[e] = static_cast<T>(x);
    });
    out->start = start;
    out->split = split;
    out->label = label;
    out->weight = weight;
    out->own = own;
}

template <class T>
void pack_both(const SparseTable& t, bool depth, Scratch& s, Packing* out) {
    const DefaultFactors f(t, depth);
    pack_side<T>(t, depth, true, f.columns, f.rows, s, &out->sparse_forward);
    pack_side<T>(t, depth, false, f.rows, f.columns, s, &out->sparse_backward);
    double all = 0.0;
    for (double c : f.columns) all += c;
    out->positive = t.rest > kForbidden;
    for (int64_t l = 0; l < t.n_labels; ++l) {
        double sum = f.rows[at(l)] * all;
        for (int64_t e = t.start[at(l)]; e < t.start[at(l) + 1]; ++e) {
            const double x = std::exp(t.score[at(e)] - t.largest);
            sum += std::max(0.0, x - f.rows[at(l)] * f.columns[at(t.column[at(e)])]);
            out->positive &= x > 0.0;
        }
        out->reach = std::max(out->reach, sum);
    }
}

// All entries, sums rounded as in the type.
template <class T>
void spelled(const SparseTable& t, T* table) {
    const int64_t K = t.n_labels;
    for (int64_t l = 0; l < K; ++l, table += K) {
        const T row =
            static_cast<T>(t.rest) + (t.rows.empty() ? T(0) : static_cast<T>(t.rows[at(l)]));
        for (int64_t k = 0; k < K; ++k) {
            table[k] = row + (t.columns.empty() ? T(0) : static_cast<T>(t.columns[at(k)]));
        }
        for (int64_t e = t.start[at(l)]; e < t.start[at(l) + 1]; ++e) {
            table[t.column[at(e)]] = static_cast<T>(t.score[at(e)]);
        }
    }
}

// The pairs listed, row by row or column by column.
template <class T>
void list_side(const SparseTable& t, bool by_column, Scratch& s, ListedScores::Side* out) {
    const int64_t K = t.n_labels, n = t.n_listed();
    int64_t* start = s.array<int64_t>(K + 1);
    int32_t* label = s.array<int32_t>(n + 1);
    T* score = s.array<T>(n + 1);
    if (s.failed) return;
    std::fill_n(start, K + 1, 0);
    for (int64_t l = 0; l < K; ++l) {
        for (int64_t e = t.start[at(l)]; e < t.start[at(l) + 1]; ++e) {
            ++start[(by_column ? t.column[at(e)] : l) + 1];
        }
    }
    for (int64_t k = 0; k < K; ++k) start[k + 1] += start[k];
    std::vector<int64_t> next(start, start + K);
    for (int64_t l = 0; l < K; ++l) {
        for (int64_t e = t.start[at(l)]; e < t.start[at(l) + 1]; ++e) {
            const int64_t k = t.column[at(e)], to = next[at(by_column ? k : l)]++;
            label[to] = static_cast<int32_t>(by_column ? l : k);
            score[to] = static_cast<T>(t.score[at(e)]);
        }
    }
    *out = {start, label, score};
}

// The largest finite magnitude.
double magnitude(const std::vector<double>& x) {
    double most = 0.0;
    for (double v : x) most = v > kForbidden ? std::max(most, std::fabs(v)) : most;
    return most;
}

template <class T>
ListedScores* list_scores_of(const SparseTable& t, bool turned, Scratch& s) {
    ListedScores* out = s.array<ListedScores>(1);
    T* tops = s.array<T>(2 * t.n_labels);
    if (s.failed) return nullptr;
    *out = ListedScores();
    list_side<T>(t, turned, s, &out->by_row);
    list_side<T>(t, !turned, s, &out->by_column);
    if (!t.rows.empty()) out->row_ends = copied<T>(t.rows, s);
    if (!t.columns.empty()) out->column_ends = copied<T>(t.columns, s);
    if (s.failed) return nullptr;
    const std::vector<double>& others = turned ? t.rows : t.columns;
    const auto largest = [&](const ListedScores::Side& side, bool less, T* top) {
        const T* score = static_cast<const T*>(side.score);
        for (int64_t l = 0; l < t.n_labels; ++l) {
            top[l] = static_cast<T>(kForbidden);
            for (int64_t e = side.start[l]; e < side.start[l + 1]; ++e) {
                if (!(score[e] > static_cast<T>(kForbidden))) continue;
                const double share = less ? others[at(side.label[e])] : 0.0;
                top[l] = std::max(top[l], static_cast<T>(static_cast<double>(score[e]) - share));
            }
        }
    };
    largest(out->by_row, !others.empty(), tops);
    largest(out->by_column, false, tops + t.n_labels);
    out->gains = tops;
    out->column_tops = tops + t.n_labels;
    out->n_labels = static_cast<int>(t.n_labels);
    out->rest = t.rest;
    out->size = magnitude({t.rest}) + magnitude(t.rows) + magnitude(t.columns) + magnitude(t.score);
    out->rows = t.rows.empty() ? nullptr : t.rows.data();
    out->columns = t.columns.empty() ? nullptr : t.columns.data();
    out->turned = turned;
    return out;
}

}  // namespace

const ListedScores* list_scores(const SparseTable& table, int dtype, int compute, bool turned,
                                Scratch& workspace) {
    ListedScores* found = compute == kFloat32 ? list_scores_of<float>(table, turned, workspace)
                                              : list_scores_of<double>(table, turned, workspace);
    if (found) found->single = dtype == kFloat32;
    return found;
}

double SparseTable::at_pair(int dtype, int64_t l, int64_t k) const {
    const auto first = column.begin() + start[at(l)], last = column.begin() + start[at(l) + 1];
    const auto found = std::lower_bound(first, last, static_cast<int32_t>(k));
    if (found != last && *found == k) return score[at(found - column.begin())];
    return unlisted(dtype, l, k);
}

double SparseTable::unlisted(int dtype, int64_t l, int64_t k) const {
    ListedScores t;
    t.rest = rest;
    t.rows = rows.empty() ? nullptr : rows.data();
    t.columns = columns.empty() ? nullptr : columns.data();
    t.single = dtype == kFloat32;
    return t.unlisted(static_cast<int>(l), static_cast<int>(k));
}

double SparseTable::least() const {
    double x = rest + lowest(rows) + lowest(columns);
    for (double s : score) x = std::min(x, s);
    return x;
}

void SparseTable::spell(int dtype, void* table) const {
    if (dtype == kFloat32) {
        spelled(*this, static_cast<float*>(table));
    } else {
        spelled(*this, static_cast<double*>(table));
    }
}

bool SparseTable::pays(int dtype) const {
    if (n_labels < kLeastSparse || n_listed() * kOneIn > n_labels * n_labels) return false;
    // The floors of Linear, in logarithms; not those of factors whose product is larger.
    const double range = dtype == kFloat32 ? 41.0 : 345.0;
    double least = 0.0;
    for (double x : score) least = std::min(least, x > kForbidden ? x - largest : 0.0);
    if (rest > kForbidden) {
        const double spread = highest(rows) - lowest(rows);
        least = std::min({least, -spread, rest + lowest(rows) + lowest(columns) - largest});
    }
    return least > -range;
}

std::unique_ptr<SparseTable> find_default(int dtype, const void* table, int64_t labels) {
    if (labels < kLeastSparse) return nullptr;
    auto t = dtype == kFloat32 ? found(static_cast<const float*>(table), labels)
                               : found(static_cast<const double*>(table), labels);
    return t && t->pays(dtype) ? std::move(t) : nullptr;
}

bool pack_sparse(const SparseTable& t, int compute, Scratch& s, Packing* out, bool depth) {
    *out = Packing();
    out->sparse = true;
    out->depth = depth;
    out->shift = t.largest;
    if (compute == kFloat32) {
        pack_both<float>(t, depth, s, out);
    } else {
        pack_both<double>(t, depth, s, out);
    }
    return !s.failed;
}

}  // namespace vs
