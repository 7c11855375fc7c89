#include "parser/arcs.h"

#include <algorithm>

#include "simd/level.h"

namespace vs::parser {
namespace {

constexpr int kAtOnce = 4;                       // templates
constexpr int kRow = 2 * kAtOnce;                // hashes of a position: those of each role
constexpr int64_t kMostArcs = int64_t{1} << 18;  // of sentences that are scored together

}  // namespace

template <class Act>
void ArcScores::each(const One& one, const Act& act) {
    const auto one_arc = [&](int64_t h, int64_t m) {
        act(h, m, h < m ? kBins + bin(m - h) : bin(h - m));
    };
    if (one.arcs.head) {
        for (int64_t a = 0; a < one.arcs.count; ++a) {
            one_arc(one.arcs.head[a], one.arcs.modifier[a]);
        }
        return;
    }
    for (int64_t m = 1; m <= one.words.size(); ++m) {
        for (int64_t h = 0; h <= one.words.size(); ++h) {
            if (h != m) one_arc(h, m);
        }
    }
}

int64_t ArcScores::end(const int64_t* offset, int64_t first, int64_t last) {
    int64_t arcs = 0, i = first;
    for (; i < last && arcs < kMostArcs; ++i) {
        const int64_t n = offset[i + 1] - offset[i];
        if (i > first && arcs + n * n > kMostArcs) break;
        arcs += n * n;
    }
    return i;
}

void ArcScores::lay_out() {
    for (One& one : all_) {
        std::fill_n(one.end, int{kClasses}, 0);
        each(one, [&](int64_t, int64_t, int c) { ++one.end[c]; });
    }
    int64_t count = 0;
    for (int c = 0; c < kClasses; ++c) {
        begin_[c] = count;
        for (One& one : all_) {
            const int64_t own = one.end[c];
            one.begin[c] = one.end[c] = count;
            count += own;
        }
    }
    begin_[kClasses] = count;
    arc_.resize(at(count));
    distance_.resize(at(count));
    counts_.resize(at(count));
    tags_.resize(at(count));
    sum_.assign(at(count), 0.0f);
    for (One& one : all_) {
        each(one, [&](int64_t h, int64_t m, int c) {
            const auto i = at(one.end[c]++);
            const int64_t left = std::min(h, m), right = std::max(h, m);
            arc_[i] = {static_cast<uint32_t>(one.root + h), static_cast<uint32_t>(one.root + m)};
            distance_[i] = values_.distance(m - h);
            counts_[i] = values_.counts(one.words.counts(left, right));
            tags_[i] = one.words.tags(left, right);
        });
    }
}

void ArcScores::hash(const Set& set, int64_t t, int64_t count) {
    for (const One& one : all_) {
        uint32_t* row = rows_.data() + kRow * one.root;
        for (int role = 0; role < 2; ++role, row += kAtOnce) {
            for (int64_t k = 0; k < count; ++k) {
                hash_role(set, t + k, role, one.words, row + k, kRow);
            }
        }
    }
}

template <int kCount, bool kValues>
void ArcScores::add(const ClassWeights& weights, int64_t t, const uint32_t* values) {
    hash(weights.set(), t, kCount);
    for (int c = 0; c < kClasses; ++c) {
        const float* own[kCount];
        uint32_t mask[kCount];
        Ahead ahead;  // of the next class
        for (int k = 0; k < kCount; ++k) {
            own[k] = weights.of(t + k, c);
            mask[k] = weights.set().mask[at(t + k)];
            if (c == 0) fetch(own[k], mask[k], begin_[1]);
            if (c + 1 < kClasses) {
                ahead.add(weights.of(t + k, c + 1), mask[k], begin_[c + 2] - begin_[c + 1]);
            }
        }
        const int64_t some = ahead.some(begin_[c + 1] - begin_[c]);
        for (int64_t i = begin_[c]; i < begin_[c + 1]; ++i) {
            if (i % Ahead::kStretch == 0) ahead.ask(some);
            const Arc a = arc_[at(i)];
            const uint32_t* head = rows_.data() + at(a.head) * kRow;
            const uint32_t* modifier = rows_.data() + at(a.modifier) * kRow + kAtOnce;
            const uint32_t value = kValues ? values[i] : 0;
            uint32_t key[kCount];
            for (int k = 0; k < kCount; ++k) key[k] = (head[k] ^ modifier[k] ^ value) & mask[k];
            float sum = sum_[at(i)];
            for (int k = 0; k < kCount; ++k) sum += own[k][key[k]];
            sum_[at(i)] = sum;
        }
        ahead.ask(INT64_MAX);
    }
}

void ArcScores::add_between(const ClassWeights& weights, int64_t t) {
    hash(weights.set(), t, 1);
    const uint32_t *head = rows_.data(), *modifier = head + kAtOnce;
    const uint32_t mask = weights.set().mask[at(t)];
    for (int c = 0; c < kClasses; ++c) {
        const float* own = weights.of(t, c);
        for (const One& one : all_) {
            for (int64_t i = one.begin[c]; i < one.end[c]; ++i) {
                const uint32_t key =
                    head[at(arc_[at(i)].head) * kRow] ^ modifier[at(arc_[at(i)].modifier) * kRow];
                float sum = sum_[at(i)];
                for (uint64_t rest = tags_[at(i)]; rest; rest &= rest - 1) {
                    sum += own[(key ^ one.tags[vs_first_bit(rest)]) & mask];
                }
                sum_[at(i)] = sum;
            }
        }
    }
}

void ArcScores::score(const ClassWeights& weights, const uint32_t* words, const int64_t* offset,
                      int64_t first, int64_t last, const Listed* arcs) {
    const Set& set = weights.set();
    first_ = first;
    positions_ = 0;
    all_.resize(at(last - first));
    for (int64_t i = first; i < last; ++i) {
        One& one = all_[at(i - first)];
        one.words.read(words + offset[i] * kFields, offset[i + 1] - offset[i]);
        one.arcs = arcs ? arcs[i - first] : Listed{};
        one.root = positions_;
        positions_ += one.words.size() + 1;
        for (int k = 0; k < one.words.n_tags(); ++k) one.tags[k] = Values::tag(one.words.tag(k));
    }
    rows_.resize(at(kRow * positions_));
    lay_out();
    for (int64_t t = 0; t < set.size();) {
        const With with = set.all[at(t)].with;
        if (with == With::kBetween) {
            add_between(weights, t++);
            continue;
        }
        int64_t end = t + 1;  // of those that hold the same
        while (end < set.size() && end < t + kAtOnce && set.all[at(end)].with == with) ++end;
        if (end < t + kAtOnce) end = t + 1;
        const bool full = end > t + 1;
        if (with == With::kNothing) {
            full ? add<kAtOnce, false>(weights, t, nullptr) : add<1, false>(weights, t, nullptr);
        } else {
            const uint32_t* own = with == With::kDistance ? distance_.data() : counts_.data();
            full ? add<kAtOnce, true>(weights, t, own) : add<1, true>(weights, t, own);
        }
        t = end;
    }
}

void ArcScores::tell(int64_t sentence, double* out) const {
    const One& one = all_[at(sentence - first_)];
    int64_t next[kClasses];
    std::copy_n(one.begin, int{kClasses}, next);
    each(one, [&](int64_t, int64_t, int c) { *out++ = double{sum_[at(next[c]++)]}; });
}

}  // namespace vs::parser
