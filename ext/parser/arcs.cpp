#include "parser/arcs.h"

#include <algorithm>

#include "simd/level.h"

namespace vs::parser {
namespace {

constexpr int kAtOnce = 4;                       // templates
constexpr int kRow = 2 * kAtOnce;                // hashes of a position: those of each role
constexpr int64_t kMostArcs = int64_t{1} << 18;  // of sentences that are scored together

// act(head, modifier) of each arc of a class: by modifier, then head.
template <class Act>
void each(int64_t n, int c, const Act& act) {
    const int b = c % kBins;
    const int64_t near = kNearest[b], far = b + 1 < kBins ? kNearest[b + 1] - 1 : n;
    for (int64_t m = 1; m <= n; ++m) {
        const bool right = c >= kBins;  // the modifier is right of its head
        const int64_t first = right ? std::max<int64_t>(0, m - far) : m + near;
        const int64_t last = right ? m - near : std::min(n, m + far);
        for (int64_t h = first; h <= last; ++h) act(h, m);
    }
}

}  // namespace

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
    arc_.clear();
    distance_.clear();
    counts_.clear();
    tags_.clear();
    for (int c = 0; c < kClasses; ++c) {
        begin_[c] = static_cast<int64_t>(arc_.size());
        for (One& one : all_) {
            one.begin[c] = static_cast<int64_t>(arc_.size());
            each(one.words.size(), c, [&](int64_t h, int64_t m) {
                const int64_t left = std::min(h, m), right = std::max(h, m);
                arc_.push_back(
                    {static_cast<uint32_t>(one.root + h), static_cast<uint32_t>(one.root + m)});
                distance_.push_back(values_.distance(m - h));
                counts_.push_back(values_.counts(one.words.counts(left, right)));
                tags_.push_back(one.words.tags(left, right));
            });
            one.end[c] = static_cast<int64_t>(arc_.size());
        }
    }
    begin_[kClasses] = static_cast<int64_t>(arc_.size());
    sum_.assign(arc_.size(), 0.0f);
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
        for (int k = 0; k < kCount; ++k) {
            own[k] = weights.of(t + k, c);
            mask[k] = weights.set().mask[at(t + k)];
            fetch(own[k], mask[k], begin_[c + 1] - begin_[c]);
        }
        for (int64_t i = begin_[c]; i < begin_[c + 1]; ++i) {
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
                      int64_t first, int64_t last) {
    const Set& set = weights.set();
    first_ = first;
    positions_ = 0;
    all_.resize(at(last - first));
    for (int64_t i = first; i < last; ++i) {
        One& one = all_[at(i - first)];
        one.words.read(words + offset[i] * kFields, offset[i + 1] - offset[i]);
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
    const int64_t n = one.words.size();
    for (int c = 0; c < kClasses; ++c) {
        const float* sum = sum_.data() + one.begin[c];
        each(n, c, [&](int64_t h, int64_t m) {
            out[(m - 1) * n + h - (h > m)] = static_cast<double>(*sum++);
        });
    }
}

}  // namespace vs::parser
