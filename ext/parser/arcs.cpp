#include "parser/arcs.h"

#include <algorithm>

#include "core/large_pages.h"
#include "simd/level.h"

namespace vs::parser {
namespace {

constexpr int kClasses = ArcWeights::kClasses;
constexpr int kAtOnce = 4;                       // templates
constexpr int64_t kMostArcs = int64_t{1} << 18;  // of sentences that are scored together
constexpr int64_t kFloats = 16;                  // of a line of the cache

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

// Asks for all weights of a template and a class in order, where arcs are so many that they will
// read most of them anyway.
void fetch(const float* weights, uint32_t mask, int64_t arcs) {
    if (int64_t{mask} >= kFloats * arcs) return;
    for (int64_t i = 0; i <= int64_t{mask}; i += kFloats) prefetch_line(weights + i);
}

}  // namespace

void ArcWeights::make() {
    std::call_once(made_, [&] {
        const int64_t count = int64_t{set_.lines} * kClasses;
        sums_.reset(new float[at(count)]);
        prefer_large_pages(sums_.get(), count * static_cast<int64_t>(sizeof(float)));
        for (int64_t t = 0; t < set_.size(); ++t) {
            const int64_t lines = int64_t{set_.mask[at(t)]} + 1;
            const float* line = weights_ + int64_t{set_.base[at(t)]} * kSlots;
            float* to = sums_.get() + int64_t{set_.base[at(t)]} * kClasses;
            for (int64_t i = 0; i < lines; ++i, line += kSlots) {
                for (int c = 0; c < kClasses; ++c) {
                    to[c * lines + i] = line[0] + line[1 + c / kBins] + line[3 + c];
                }
            }
        }
    });
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
    uint32_t* out = rows_.data();
    for (int64_t i = t; i < t + count; ++i) {
        for (int role = 0; role < 2; ++role, out += positions_) {
            for (const One& one : all_) hash_role(set, i, role, one.words, out + one.root, 1);
        }
    }
}

template <int kCount, bool kValues>
void ArcScores::add(const ArcWeights& weights, int64_t t, const uint32_t* values) {
    hash(weights.set(), t, kCount);
    for (int c = 0; c < kClasses; ++c) {
        const float* own[kCount];
        const uint32_t *head[kCount], *modifier[kCount];
        uint32_t mask[kCount];
        for (int k = 0; k < kCount; ++k) {
            own[k] = weights.of(t + k, c);
            head[k] = rows_.data() + 2 * k * positions_;
            modifier[k] = head[k] + positions_;
            mask[k] = weights.set().mask[at(t + k)];
        }
        for (int k = 0; k < kCount; ++k) fetch(own[k], mask[k], begin_[c + 1] - begin_[c]);
        for (int64_t i = begin_[c]; i < begin_[c + 1]; ++i) {
            const Arc a = arc_[at(i)];
            float sum = sum_[at(i)];
            const uint32_t value = kValues ? values[i] : 0;
            for (int k = 0; k < kCount; ++k) {
                sum += own[k][(head[k][a.head] ^ modifier[k][a.modifier] ^ value) & mask[k]];
            }
            sum_[at(i)] = sum;
        }
    }
}

void ArcScores::add_between(const ArcWeights& weights, int64_t t) {
    hash(weights.set(), t, 1);
    const uint32_t *head = rows_.data(), *modifier = head + positions_;
    const uint32_t mask = weights.set().mask[at(t)];
    for (int c = 0; c < kClasses; ++c) {
        const float* own = weights.of(t, c);
        for (const One& one : all_) {
            for (int64_t i = one.begin[c]; i < one.end[c]; ++i) {
                const uint32_t key = head[arc_[at(i)].head] ^ modifier[arc_[at(i)].modifier];
                float sum = sum_[at(i)];
                for (uint64_t rest = tags_[at(i)]; rest; rest &= rest - 1) {
                    sum += own[(key ^ one.tags[vs_first_bit(rest)]) & mask];
                }
                sum_[at(i)] = sum;
            }
        }
    }
}

void ArcScores::score(const ArcWeights& weights, const uint32_t* words, const int64_t* offset,
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
    rows_.resize(at(2 * kAtOnce * positions_));
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
