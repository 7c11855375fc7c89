// The labels of arcs, once the heads are known: a linear classifier.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parser/features.h"

namespace vs::parser {

// The weights of a key: one for each label, and some that nobody reads.
class Labels {
  public:
    Labels(int64_t n_labels, int bits)
        : set_(make_set(Kind::kLabel, bits)), n_(n_labels), row_((n_labels + 7) / 8 * 8) {}

    int64_t size() const { return n_; }
    int64_t n_weights() const { return static_cast<int64_t>(set_.lines) * row_; }
    int64_t row() const { return row_; }
    const Set& set() const { return set_; }

  private:
    Set set_;
    int64_t n_, row_;
};

class Labeller {
  public:
    explicit Labeller(const Labels& labels) : labels_(labels), features_(labels.set()) {}

    void read(const Sentence& sentence) { features_.read(sentence); }
    // The label that scores most, of equals the first; scores (row,) stay here.
    template <class T>
    int32_t label(const T* weights, int64_t head, int64_t modifier) {
        list(head, modifier, 0);
        return label(weights, keys_[0]);
    }
    // Those of all words (n,) of a sentence: what a word wants is on its way while the one before
    // is labelled.
    void label_all(const float* weights, const int32_t* heads, int64_t n, int32_t* out) {
        for (int64_t m = 1; m <= n + 1; ++m) {
            if (m <= n) {
                list(heads[m - 1], m, m & 1);
                for (int64_t k = 0; k < keys_[m & 1].count; ++k) {
                    const float* w = weights + line(keys_[m & 1], k) * labels_.row();
                    for (int64_t l = 0; l < labels_.row(); l += kFloats) prefetch_line(w + l);
                }
            }
            if (m > 1) out[m - 2] = label(weights, keys_[~m & 1]);
        }
    }

    // Averaged perceptron with a margin: a step for every word whose label does not lead by 1.
    struct Learnt {
        double *weights, *late;  // (n_weights,) each: weights, and the sum of time times change
        int64_t time;            // words so far
    };
    // Returns whether the label was wrong.
    bool learn(Learnt* to, int64_t head, int64_t modifier, int32_t gold);

  private:
    static constexpr int64_t kFloats = 16;  // of a line of the cache
    static constexpr int kBlock = 8;        // labels that are summed at once; rows hold so many

    void list(int64_t head, int64_t modifier, int64_t place) {
        features_.arc(head, modifier, &keys_[place]);
    }
    template <class T>
    int32_t label(const T* weights, const Keys& keys) {
        const int64_t row = labels_.row();
        score_.resize(at(row));
        const T* rows[Keys::kMost];
        for (int64_t k = 0; k < keys.count; ++k) rows[k] = weights + line(keys, k) * row;
        for (int64_t first = 0; first < row; first += kBlock) {
            double sum[kBlock] = {};  // it stays in registers
            for (int64_t k = 0; k < keys.count; ++k) {
                const T* w = rows[k] + first;
                for (int l = 0; l < kBlock; ++l) sum[l] += static_cast<double>(w[l]);
            }
            std::copy_n(sum, kBlock, score_.data() + first);
        }
        int32_t best = 0;
        for (int32_t l = 1; l < labels_.size(); ++l) {
            if (score_[at(l)] > score_[at(best)]) best = l;
        }
        return best;
    }
    // Keys of both directions are different ones. Every template has one key: none is of tags
    // between.
    int64_t line(const Keys& keys, int64_t k) const {
        const uint32_t base = labels_.set().base[at(k)], mask = labels_.set().mask[at(k)];
        const uint32_t turned = keys.a == 1 ? 0x5bd1e995u : 0u;
        return base + (((keys.line[k] - base) ^ turned) & mask);
    }

    const Labels& labels_;
    Features features_;
    Keys keys_[2];
    std::vector<double> score_;
};

// One pass over words with their heads and labels; returns how many labels were wrong.
int64_t learn_labels(const Labels& labels, const uint32_t* words, const int64_t* offset,
                     const int32_t* heads, const int32_t* gold, const int64_t* order, int64_t count,
                     Labeller::Learnt* to);

}  // namespace vs::parser
