#include "parser/labels.h"

namespace vs::parser {

bool Labeller::learn(Learnt* to, int64_t head, int64_t modifier, int32_t gold) {
    const int32_t found = label(to->weights, head, modifier);
    ++to->time;
    int32_t rival = gold == 0 ? 1 : 0;  // the best of the others
    for (int32_t l = 0; l < labels_.size(); ++l) {
        if (l != gold && score_[at(l)] > score_[at(rival)]) rival = l;
    }
    if (labels_.size() < 2) return false;
    const double lead = score_[at(gold)] - score_[at(rival)];
    if (lead < 1.0) {
        // The step of passive-aggressive learning: the gradient has 2 entries a key.
        const double step = (1.0 - lead) / static_cast<double>(2 * keys_[0].count);
        const double late = step * static_cast<double>(to->time);
        for (int64_t k = 0; k < keys_[0].count; ++k) {
            const int64_t first = line(keys_[0], k) * labels_.row();
            to->weights[first + gold] += step;
            to->weights[first + rival] -= step;
            to->late[first + gold] += late;
            to->late[first + rival] -= late;
        }
    }
    return found != gold;
}

int64_t learn_labels(const Labels& labels, const uint32_t* words, const int64_t* offset,
                     const int32_t* heads, const int32_t* gold, const int64_t* order, int64_t count,
                     Labeller::Learnt* to) {
    Labeller labeller(labels);
    Sentence sentence;
    int64_t wrong = 0;
    for (int64_t k = 0; k < count; ++k) {
        const int64_t i = order[k], first = offset[i], n = offset[i + 1] - first;
        sentence.read(words + first * kFields, n);
        labeller.read(sentence);
        for (int64_t m = 0; m < n; ++m) {
            wrong += labeller.learn(to, heads[first + m], m + 1, gold[first + m]);
        }
    }
    return wrong;
}

}  // namespace vs::parser
