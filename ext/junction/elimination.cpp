#include "junction/elimination.h"

#include <algorithm>
#include <cmath>

#include "junction/poll.h"

namespace vs::junction {
namespace {

uint64_t mix(uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

// Variables with keys, of which the least is at hand: the winner of a knock-out, played again along
// the way of a key that changes.
template <class Key>
class Knockout {
  public:
    explicit Knockout(int32_t n) : key_(static_cast<size_t>(n)) {
        while (leaves_ < n) leaves_ *= 2;
        win_.assign(static_cast<size_t>(2 * leaves_), -1);
    }
    int32_t least() const { return win_[1]; }  // -1: none is left
    void set(int32_t v, const Key& key) {
        key_[v] = key;
        win_[leaves_ + v] = v;
        play(v);
    }
    void remove(int32_t v) {
        win_[leaves_ + v] = -1;
        play(v);
    }

  private:
    void play(int32_t v) {
        for (int32_t i = (leaves_ + v) / 2; i > 0; i /= 2) {
            const int32_t a = win_[2 * i], b = win_[2 * i + 1];
            const int32_t w = b < 0 || (a >= 0 && key_[a] < key_[b]) ? a : b;
            if (w == win_[i] && w != v) break;
            win_[i] = w;
        }
    }

    int32_t leaves_ = 2;
    std::vector<int32_t> win_;  // (2 leaves_,) [1]: of all; [leaves_ + v]: v itself
    std::vector<Key> key_;
};

enum class EliminationRule : int { kMinFill, kWeightedMinFill, kMinWeight };

// Eliminates the variable with the smallest score of the rule, again and again. Ties go to the
// smaller table, then to a random number (seed 0: to the lowest variable).
class Greedy {
  public:
    Greedy(const Moral& m, EliminationRule rule, uint64_t seed, Control* control)
        : values_(m.values),
          near_(m.near),
          rule_(rule),
          n_(static_cast<int32_t>(m.near.size())),
          poll_{control},
          queue_(n_) {
        const size_t n = static_cast<size_t>(n_);
        stamp_.assign(n, 0);
        touched_.assign(n, 0);
        gone_.assign(n, 0);
        known_.assign(n, 0);
        fill_.assign(n, 0.0);
        degree_.resize(n);
        bits_.resize(n);
        random_.resize(n);
        log_.resize(n);
        for (size_t v = 0; v < n; ++v) log_[v] = std::log2(values_[v]);
        for (int32_t v = 0; v < n_; ++v) {
            degree_[v] = static_cast<int32_t>(near_[v].size());
            bits_[v] = log_[v];
            for (int32_t u : near_[v]) bits_[v] += log_[u];
            random_[v] = seed ? mix(seed * 0x10001u + static_cast<uint64_t>(v)) : uint64_t(v);
        }
    }

    // kTooLarge as soon as all tables together have more than `limit` entries.
    Found run(double limit, Elimination* out) {
        out->order.clear();
        out->order.reserve(static_cast<size_t>(n_));
        out->later.assign(static_cast<size_t>(n_), {});
        out->size = 0.0;
        for (int32_t v = 0; v < n_; ++v) {
            push(v);
            if (cancelled()) return Found::kCancelled;
        }
        for (int32_t v; (v = queue_.least()) >= 0;) {
            queue_.remove(v);
            out->size += std::exp2(bits_[v]);
            out->operations = operations_;
            if (out->size > limit) return Found::kTooLarge;
            remove(v, out);
            if (cancelled()) return Found::kCancelled;
        }
        out->operations = operations_;
        return Found::kOrder;
    }

  private:
    struct Key {
        double score, bits;
        uint64_t random;  // no two are alike but by chance
        bool operator<(const Key& o) const {
            if (score != o.score) return score < o.score;
            if (bits != o.bits) return bits < o.bits;
            return random < o.random;
        }
    };

    bool cancelled() {
        if (!cancelled_ && operations_ >= due_) {
            due_ = operations_ + kPoll;
            cancelled_ = !poll_.go_on();
        }
        return cancelled_;
    }
    double edge(int32_t a, int32_t b) const {
        return rule_ == EliminationRule::kWeightedMinFill ? values_[a] * values_[b] : 1.0;
    }
    // The fill of a hub is computed only once its degree has come down: it costs the square.
    static constexpr int32_t kHub = 512;
    void push(int32_t v) {
        operations_ += 8;
        double score = bits_[v];
        if (rule_ != EliminationRule::kMinWeight) {
            if (!known_[v] && degree_[v] <= kHub) {
                fill_[v] = fill(v);
                known_[v] = 1;
            }
            score = known_[v] ? fill_[v] : INFINITY;
        }
        queue_.set(v, {score, bits_[v], random_[v]});
    }
    void drop_gone(Set& list) {
        list.erase(
            std::remove_if(list.begin(), list.end(), [&](int32_t u) { return gone_[u] != 0; }),
            list.end());
    }
    // Marks the neighbours of v with a new number, and drops those that are gone.
    int32_t mark(int32_t v) {
        Set& list = near_[v];
        if (static_cast<int32_t>(list.size()) != degree_[v]) drop_gone(list);
        ++now_;
        for (int32_t u : list) stamp_[u] = now_;
        operations_ += static_cast<int64_t>(list.size());
        return now_;
    }
    // Weight of the edges missing among the neighbours of v. The list of the one that has the most
    // is not read: those of the others tell which of them it meets.
    double fill(int32_t v) {
        if (degree_[v] < 2) return 0.0;
        const int32_t own = mark(v);
        int32_t hub = near_[v][0];
        for (int32_t u : near_[v]) {
            if (near_[u].size() > near_[hub].size()) hub = u;
        }
        double missing = 0.0;
        for (int32_t u : near_[v]) {
            if (u == hub) continue;
            operations_ += static_cast<int64_t>(near_[u].size() + near_[v].size());
            for (int32_t w : near_[u]) {
                if (stamp_[w] == own) stamp_[w] = -1;
            }
            for (int32_t w : near_[v]) {
                if (stamp_[w] == -1) {
                    stamp_[w] = own;
                } else if (w == hub || w > u) {
                    missing += edge(u, w);
                }
            }
        }
        return missing;
    }
    void touch(int32_t v) {
        if (touched_[v]) return;
        touched_[v] = 1;
        list_.push_back(v);
    }

    void remove(int32_t v, Elimination* out) {
        const int32_t own = mark(v);
        Set around;
        around.swap(near_[v]);
        gone_[v] = 1;
        out->order.push_back(v);
        // v leaves: pairs (v, w) are no longer missing around its neighbours.
        for (int32_t u : around) {
            if (known_[u]) {
                for (int32_t w : near_[u]) {
                    if (w != v && !gone_[w] && stamp_[w] != own) fill_[u] -= edge(v, w);
                }
                operations_ += static_cast<int64_t>(near_[u].size());
            }
            --degree_[u];
            // One that is never marked would keep all that have gone, and be walked through.
            if (near_[u].size() > 2 * static_cast<size_t>(degree_[u]) + 8) drop_gone(near_[u]);
            bits_[u] -= log_[v];
            touch(u);
        }
        // Its neighbours are joined.
        for (size_t i = 0; i < around.size(); ++i) {
            const int32_t a = around[i];
            if (i + 1 == around.size() || cancelled()) break;
            mark(a);
            for (size_t j = i + 1; j < around.size(); ++j) {
                if (stamp_[around[j]] != now_) join(a, around[j]);
            }
        }
        out->later[v].swap(around);
        for (int32_t u : list_) {
            touched_[u] = 0;
            push(u);
        }
        list_.clear();
    }
    // Adds the edge (a, b); a's neighbours are marked with now_.
    void join(int32_t a, int32_t b) {
        operations_ += static_cast<int64_t>(near_[a].size() + near_[b].size());
        if (rule_ != EliminationRule::kMinWeight) {
            const double w = edge(a, b);
            common_.clear();
            for (int32_t c : near_[b]) {
                if (gone_[c]) continue;
                if (stamp_[c] == now_) {  // common: the pair is no longer missing there
                    fill_[c] -= w;
                    touch(c);
                    common_.push_back(c);
                } else {
                    fill_[b] += edge(a, c);
                }
            }
            for (int32_t c : common_) stamp_[c] = -1;
            for (int32_t c : near_[a]) {
                if (stamp_[c] != -1) fill_[a] += edge(b, c);
            }
            for (int32_t c : common_) stamp_[c] = now_;
        }
        near_[a].push_back(b);
        near_[b].push_back(a);
        ++degree_[a];
        ++degree_[b];
        bits_[a] += log_[b];
        bits_[b] += log_[a];
        stamp_[b] = now_;
        touch(a);
        touch(b);
    }

    const std::vector<double>& values_;
    std::vector<Set> near_;
    EliminationRule rule_;
    int32_t n_, now_ = 0;
    int64_t operations_ = 0, due_ = 0;
    Poll poll_;
    bool cancelled_ = false;
    std::vector<int32_t> stamp_, degree_, list_, common_;
    std::vector<uint8_t> touched_, gone_, known_;
    std::vector<double> fill_, bits_, log_;  // log_: of the number of values
    std::vector<uint64_t> random_;
    Knockout<Key> queue_;
};

}  // namespace

Found best_elimination(const Moral& m, const Search& search, Control* control, Elimination* best,
                       int64_t* tried) {
    constexpr double kTrivial = 4096.0;  // tables below this are not worth a second order
    constexpr double kBudget = 1.5e7;    // operations, 0.1 s, while every order is too large
    constexpr double kTooFar = 65536.0;  // so many times what fits: random ties gain less
    constexpr int64_t kRestarts = 1000;
    const EliminationRule rules[3] = {EliminationRule::kMinFill, EliminationRule::kWeightedMinFill,
                                      EliminationRule::kMinWeight};
    // An operation takes about as long as two table entries do in propagation.
    const auto budget = [&] {
        const double use = 0.1 * std::min(best->size, search.fits);
        return search.effort * (best->size > kTooFar * search.fits ? std::min(use, kBudget) : use);
    };
    double spent = 0.0;
    bool any = false;
    for (*tried = 0; *tried < kRestarts + 3; ++*tried) {
        const int64_t restart = *tried - 2;  // the first three orders are not random
        if (*tried > 0) {
            if (search.effort == 0.0) break;
            if (any && *tried == 1 && best->size <= kTrivial * search.effort) break;
            if (any && restart > 0 && spent >= budget()) break;
            if (!any && spent >= kBudget) break;
        }
        const EliminationRule rule = rules[restart > 0 ? restart % 3 : *tried];
        const uint64_t seed =
            restart > 0 ? mix(search.seed * 1000003u + static_cast<uint64_t>(restart)) | 1u : 0u;
        Elimination e;
        const Found found = Greedy(m, rule, seed, control).run(any ? best->size : search.most, &e);
        if (found == Found::kCancelled) return found;
        spent += static_cast<double>(e.operations);
        if (found == Found::kOrder && (!any || e.size < best->size)) {
            std::swap(*best, e);
            any = true;
        }
    }
    return any ? Found::kOrder : Found::kTooLarge;
}

}  // namespace vs::junction
