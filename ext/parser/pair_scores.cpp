#include "parser/pair_scores.h"

#include <algorithm>

namespace vs::parser {

void PairScores::clear() {
    sentences_.clear();
    positions_ = root_ = waiting_ = 0;
    for (List& own : lists_) own.pairs.clear();
}

PairScores::Mark PairScores::begin(const Sentence& sentence) {
    sentences_.push_back(&sentence);
    root_ = positions_;
    positions_ += sentence.size() + 1;
    Mark mark;
    for (int c = 0; c < kClasses; ++c) {
        mark.count[c] = static_cast<int64_t>(lists_[c].pairs.size());
    }
    return mark;
}

void PairScores::take_back(const Mark& mark) {
    for (int c = 0; c < kClasses; ++c) {
        const size_t kept = at(mark.count[c]);
        waiting_ -= static_cast<int64_t>(lists_[c].pairs.size() - kept);
        lists_[c].pairs.resize(kept);
    }
}

void PairScores::add(Kind kind, const int32_t* nodes, const Slots& slots) {
    const auto position = [&](int role) { return static_cast<uint32_t>(root_ + nodes[role]); };
    // What is between both modifiers, or between the grandparent and the modifier.
    const int64_t from = nodes[kind == Kind::kSibling], end = nodes[2];
    const Sentence& words = *sentences_.back();
    ++waiting_;
    lists_[class_of(kind, slots)].pairs.push_back(
        {{position(0), position(1), position(2)},
         values_.distance(end - from),
         values_.counts(words.counts(std::min(from, end), std::max(from, end)))});
}

void PairScores::hash(const Set& set, int64_t t, int64_t count) {
    uint32_t* row = rows_.data();
    for (const Sentence* s : sentences_) {
        for (int role = 0; role < kRoles; ++role) {
            for (int64_t k = 0; k < count; ++k) {
                hash_role(set, t + k, role, *s, row + kAtOnce * role + k, kRow);
            }
        }
        row += kRow * (s->size() + 1);
    }
}

template <int kCount, With kWith, class Act>
void PairScores::each(List* list, Ahead* ahead, const Act& act) {
    const auto count = static_cast<int64_t>(list->pairs.size());
    float* sum = list->sums.data();
    const int64_t some = ahead->some(count);
    for (int64_t i = 0; i < count; ++i) {
        if (i % Ahead::kStretch == 0) ahead->ask(some);
        const Pair& p = list->pairs[at(i)];
        const uint32_t* first = rows_.data() + at(p.position[0]) * kRow;
        const uint32_t* second = rows_.data() + at(p.position[1]) * kRow + kAtOnce;
        const uint32_t* third = rows_.data() + at(p.position[2]) * kRow + 2 * kAtOnce;
        const uint32_t value = kWith == With::kNothing    ? 0
                               : kWith == With::kDistance ? p.distance
                                                          : p.counts;
        uint32_t key[kCount];
        for (int k = 0; k < kCount; ++k) key[k] = first[k] ^ second[k] ^ third[k] ^ value;
        sum[i] = act(sum[i], key);
    }
}

template <int kCount, class Act>
void PairScores::each(With with, List* list, Ahead* ahead, const Act& act) {
    with == With::kNothing    ? each<kCount, With::kNothing>(list, ahead, act)
    : with == With::kDistance ? each<kCount, With::kDistance>(list, ahead, act)
                              : each<kCount, With::kCounts>(list, ahead, act);
}

void PairScores::score(Kind kind, const float* weights, const ClassWeights* by_class) {
    const auto which = static_cast<size_t>(kind);
    const Set& set = templates_.sets[which];
    const std::vector<Slots> classes = classes_of(kind);
    List* lists = lists_ + (kind == Kind::kSibling ? 0 : kSiblingClasses);
    const auto n_classes = static_cast<int>(classes.size());
    size_t all = 0;
    for (int c = 0; c < n_classes; ++c) {
        lists[c].sums.assign(lists[c].pairs.size(), 0.0f);
        all += lists[c].pairs.size();
    }
    if (all == 0) return;
    for (int64_t t = 0, end; t < set.size(); t = end) {
        const With with = set.all[at(t)].with;
        const bool full =
            by_class && t + kAtOnce <= set.size() && set.all[at(t + kAtOnce - 1)].with == with;
        end = t + (full ? kAtOnce : 1);
        hash(set, t, end - t);
        bool first = true;
        for (int c = 0; c < n_classes; ++c) {
            List* list = lists + c;
            const auto pairs = static_cast<int64_t>(list->pairs.size());
            if (pairs == 0) continue;
            if (!by_class) {
                const Slots slots = classes[at(c)];
                Ahead none;
                each<1>(with, list, &none, [&](float sum, const uint32_t* key) {
                    return templates_.add(weights, which, t, key[0], slots, sum);
                });
                continue;
            }
            const float* own[kAtOnce];
            uint32_t mask[kAtOnce];
            int next = c + 1;
            while (next < n_classes && lists[next].pairs.empty()) ++next;
            Ahead ahead;  // of that class
            for (int64_t k = 0; k < end - t; ++k) {
                own[k] = by_class->of(t + k, c);
                mask[k] = set.mask[at(t + k)];
                if (first) fetch(own[k], mask[k], pairs);
                if (next < n_classes) {
                    ahead.add(by_class->of(t + k, next), mask[k],
                              static_cast<int64_t>(lists[next].pairs.size()));
                }
            }
            first = false;
            if (full) {
                each<kAtOnce>(with, list, &ahead, [&](float sum, const uint32_t* key) {
                    for (int k = 0; k < kAtOnce; ++k) sum += own[k][key[k] & mask[k]];
                    return sum;
                });
            } else {
                each<1>(with, list, &ahead, [&](float sum, const uint32_t* key) {
                    return sum + own[0][key[0] & mask[0]];
                });
            }
        }
    }
}

void PairScores::score(const Weights& weights) {
    waiting_ = 0;
    rows_.resize(at(positions_ * kRow));
    score(Kind::kSibling, weights.all, weights.siblings);
    score(Kind::kGrandparent, weights.all, weights.grandparents);
}

}  // namespace vs::parser
