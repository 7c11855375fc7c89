#include "parser/loopy.h"

#include <algorithm>
#include <cmath>

#include "core/logs.h"

namespace vs::parser {
namespace {

constexpr double kModest = 30.0;  // potentials whose exponentials are no large numbers
constexpr double kOdds = 250.0;   // log-odds of which two and a potential can be multiplied
constexpr double kSum = 400.0;    // potentials of an arc's pairs, of which messages are multiplied
constexpr int64_t kMany = 2;      // pairs an arc
// What the largest belief of a word is above others, so that rounding cannot change their order,
// nor that of sums over words.
constexpr double kGap = 1e-6;
constexpr double kLarge = 1e100;  // numbers that can still be multiplied

// log (1 + e^(b + theta)) / (1 + e^b): what a pair tells one arc where the other has log-odds b.
// growth: e^theta - 1
double message(double theta, double growth, double b) {
    if (std::fabs(theta) < kModest) return std::log1p(logistic(b) * growth);
    return softplus(b + theta) - softplus(b);
}

}  // namespace

void Loopy::add_messages(const Parts& parts) {
    const double* to = messages.data();
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            total_[at(p.first)] += *to++;
            total_[at(p.second)] += *to++;
        }
    }
}

void Loopy::want(const Parts& parts, const double* potentials, double least) {
    total_.assign(at(parts.arcs()), 0.0);
    add_messages(parts);
    want_tree(parts, potentials, least);
}

dependency::Arcs Loopy::answers() const {
    dependency::Arcs out;
    out.ratio = memory_->ratio.data();
    out.all_ratios = false;
    if (few_asked_) out.asked = memory_->asked.data();
    out.least = least_;
    return out;
}

double Loopy::ask(const Parts& parts, const Trees& trees) {
    double* scratch = memory_->of(trees, parts.n);
    return trees.api->sum(trees.kind, tree(parts, trees), answers(), scratch, &sums_);
}

void Loopy::begin_few(const Parts& parts) {
    const int64_t n = parts.n;
    memory_->asked.assign(at((n + 1) * (n + 1)), 0);
    memory_->few.clear();
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            for (const int32_t a : {p.first, p.second}) {
                memory_->asked[at(parts.head[at(a)] * (n + 1) + parts.modifier[at(a)])] = 1;
            }
        }
    }
    for (int32_t a = 0; a < parts.arcs(); ++a) {
        if (memory_->asked[at(parts.head[at(a)] * (n + 1) + parts.modifier[at(a)])])
            memory_->few.push_back(a);
    }
}

void Loopy::want_few(const Parts& parts, const double* potentials) {
    const int64_t n = parts.n;
    for (const int32_t a : memory_->few) {
        const int64_t place = parts.head[at(a)] * (n + 1) + parts.modifier[at(a)];
        table_[at(place)] = total_[at(a)] += potentials[a];
    }
    few_asked_ = true;
    least_ = 0.0;
}

void Loopy::ask_others(const Parts& parts, const double* potentials, const Trees& trees) {
    const int64_t n = parts.n, arcs = parts.arcs();
    const auto place = [&](int64_t a) {
        return at(parts.head[at(a)] * (n + 1) + parts.modifier[at(a)]);
    };
    for (int64_t a = 0; a < arcs; ++a) memory_->asked[place(a)] ^= 1;
    more(trees, memory_->asked.data(), memory_->ratio.data());
    for (int64_t a = 0; a < arcs; ++a) {
        if (!memory_->asked[place(a)]) continue;
        total_[at(a)] = std::clamp(potentials[a] + memory_->ratio[place(a)], -kMostOdds, kMostOdds);
    }
}

void Loopy::more(const Trees& trees, const uint8_t* asked, double* ratio, double* marginal) {
    dependency::Arcs out;
    out.ratio = ratio;
    out.marginal = marginal;
    out.all_ratios = false;
    out.asked = asked;
    trees.api->more(&sums_, out);
}

void Loopy::want_tree(const Parts& parts, const double* potentials, double least) {
    const int64_t n = parts.n, arcs = parts.arcs();
    table_.assign(at((n + 1) * (n + 1)), -INFINITY);
    for (int64_t a = 0; a < arcs; ++a) {
        total_[at(a)] += potentials[a];
        table_[at(parts.head[at(a)] * (n + 1) + parts.modifier[at(a)])] = total_[at(a)];
    }
    few_asked_ = false;
    least_ = least;
}

void Loopy::read(const Parts& parts) {
    const auto add = [&](int64_t a) {
        const int64_t place = parts.head[at(a)] * (parts.n + 1) + parts.modifier[at(a)];
        total_[at(a)] =
            std::clamp(total_[at(a)] + memory_->ratio[at(place)], -kMostOdds, kMostOdds);
    };
    if (few_asked_) {
        for (const int32_t a : memory_->few) add(a);
    } else {
        for (int64_t a = 0; a < parts.arcs(); ++a) add(a);
    }
}

void Loopy::read_growth(int64_t pairs, const double* theta) {
    memory_->growth.resize(at(pairs));
    for (int64_t i = 0; i < pairs; ++i) memory_->growth[at(i)] = std::expm1(theta[i]);
}

double Loopy::send(const Parts& parts, const double* theta) {
    const double* growth = memory_->growth.data();
    const double keep = effort.damping;
    double change = 0.0;
    double* to = messages.data();
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            double x = message(*theta, *growth, total_[at(p.second)] - to[1]);
            double y = message(*theta, *growth, total_[at(p.first)] - to[0]);
            x += keep * (to[0] - x);
            y += keep * (to[1] - y);
            change = std::max({change, std::fabs(x - to[0]), std::fabs(y - to[1])});
            to[0] = x;
            to[1] = y;
            to += 2;
            ++theta;
            ++growth;
        }
    }
    return change;
}

bool Loopy::begin_odds(const Parts& parts, const double* theta) {
    const int64_t pairs = parts.size() - parts.arcs();
    if (effort.damping != 0.0 || pairs == 0) return false;
    memory_->factor.resize(at(pairs));
    memory_->product.assign(at(parts.arcs()), 0.0);
    double* t = memory_->factor.data();
    double largest = 0.0;
    for (const auto* list : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *list) {
            const double size = std::fabs(*theta);
            largest = std::max(largest, size);
            memory_->product[at(p.first)] += size;
            memory_->product[at(p.second)] += size;
            *t++ = std::exp(*theta++);
        }
    }
    // No message has a logarithm larger than its pair's potential.
    for (const double sum : memory_->product) {
        if (!(sum < kSum)) return false;
    }
    memory_->sent.resize(at(2 * pairs));
    for (size_t i = 0; i < memory_->sent.size(); ++i) {
        memory_->sent[i] = messages[i] == 0.0 ? 1.0 : std::exp(messages[i]);
    }
    memory_->odds.resize(total_.size());
    return largest < kModest && read_odds();
}

// Odds of the arcs that are in pairs; false: some are out of range.
bool Loopy::read_odds() {
    for (const int32_t a : memory_->few) {
        if (!(std::fabs(total_[at(a)]) < kOdds)) return false;
        memory_->odds[at(a)] = std::exp(total_[at(a)]);
    }
    return true;
}

void Loopy::want_odds(const Parts& parts, const double* potentials, bool all) {
    if (all) std::fill(total_.begin(), total_.end(), 0.0);
    for (const int32_t a : memory_->few) total_[at(a)] = std::log(memory_->product[at(a)]);
    all ? want_tree(parts, potentials, 0.0) : want_few(parts, potentials);
}

void Loopy::read_messages() {
    for (size_t i = 0; i < memory_->sent.size(); ++i) messages[i] = std::log(memory_->sent[i]);
}

bool Loopy::send_odds(const Parts& parts) {
    const double up = std::exp(effort.tolerance), down = 1.0 / up;
    bool moved = false;
    memory_->next.resize(memory_->sent.size());
    const double *to = memory_->sent.data(), *t = memory_->factor.data();
    double* out = memory_->next.data();
    memory_->product.assign(memory_->odds.size(), 1.0);
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            const double first = memory_->odds[at(p.first)], second = memory_->odds[at(p.second)];
            const double a = to[0] + first, b = to[1] + second, over = 1.0 / (a * b);
            const double x = (to[1] + second * *t) * a * over;
            const double y = (to[0] + first * *t) * b * over;
            moved |= !(x < to[0] * up) || !(x > to[0] * down);
            moved |= !(y < to[1] * up) || !(y > to[1] * down);
            out[0] = x;
            out[1] = y;
            memory_->product[at(p.first)] *= x;
            memory_->product[at(p.second)] *= y;
            to += 2;
            out += 2;
            ++t;
        }
    }
    if (moved) memory_->sent.swap(memory_->next);
    return !moved;
}

double Loopy::tell_odds(const Parts& parts, double* beliefs) const {
    // Each pair adds log of its mass over that of both arcs alone, a modest number.
    double log_z = 0.0, product = 1.0;
    const double *to = memory_->sent.data(), *t = memory_->factor.data();
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            const double first = memory_->odds[at(p.first)], second = memory_->odds[at(p.second)];
            const double on = first * second * *t++;
            const double mass = to[0] * to[1] + first * to[1] + second * to[0] + on;
            *beliefs++ = on / mass;
            product *= mass / (to[0] * to[1] * (1.0 + first) * (1.0 + second));
            if (product > kLarge || product < 1.0 / kLarge) {
                log_z += std::log(product);
                product = 1.0;
            }
            to += 2;
        }
    }
    return log_z + std::log(product);
}

double Loopy::tell_pairs(const Parts& parts, const double* theta, double* beliefs) const {
    double log_z = 0.0;
    const double* to = messages.data();
    for (const auto* pairs : {&parts.siblings, &parts.grandparents}) {
        for (const Parts::Pair& p : *pairs) {
            // The four states of a pair: neither, one, the other, both.
            const double first = total_[at(p.first)], second = total_[at(p.second)];
            const double a = first - to[0], b = second - to[1], both = a + b + *theta;
            const double top = std::max({0.0, a, b, both});
            const double on = std::exp(both - top);
            const double z = std::exp(-top) + std::exp(a - top) + std::exp(b - top) + on;
            *beliefs++ = on / z;
            log_z += top + std::log(z) - softplus(first) - softplus(second);
            to += 2;
            ++theta;
        }
    }
    return log_z;
}

void Loopy::tell_arcs(double* beliefs) const {
    for (const double x : total_) *beliefs++ = logistic(x);
}

double Loopy::tell(const Parts& parts, const double* potentials, const Trees& trees,
                   double* beliefs) {
    if (!all_) ask_others(parts, potentials, trees);
    all_ = true;
    tell_arcs(beliefs);
    const double* theta = potentials + parts.arcs();
    if (!passed_odds_) return log_z_ + tell_pairs(parts, theta, beliefs + parts.arcs());
    if (fresh_) {
        messages.clear();  // as many logarithms
    } else {
        read_messages();
    }
    return log_z_ + tell_odds(parts, beliefs + parts.arcs());
}

bool Loopy::begin_complete(const Parts& parts, const double* potentials, const Trees& trees) {
    if (!partial_) return false;
    partial_ = false;
    memory_->of(trees, parts.n);
    want(parts, potentials, 0.0);
    wanted_ = Wanted::kRest;
    return true;
}

void Loopy::complete(const Parts& parts, const double* potentials, const Trees& trees) {
    if (begin_complete(parts, potentials, trees)) resume(parts, potentials, ask(parts, trees));
}

bool Loopy::begin(const Parts& parts, const double* potentials, const Trees& trees, bool added,
                  double least) {
    const int64_t pairs = parts.size() - parts.arcs();
    memory_->of(trees, parts.n);
    fresh_ = static_cast<int64_t>(messages.size()) != 2 * pairs;
    if (fresh_) messages.assign(at(2 * pairs), 0.0);
    added_ = added;
    iterations_ = 0;
    converged_ = pairs == 0;
    passed_odds_ = false;
    all_ = true;
    wanted_ = Wanted::kFirst;
    if (added) return resume(parts, potentials, log_z_);
    want(parts, potentials, least);
    partial_ = least > 0.0;
    return true;
}

bool Loopy::resume(const Parts& parts, const double* potentials, double log_z) {
    log_z_ = log_z;
    const double* theta = potentials + parts.arcs();
    const int64_t pairs = parts.size() - parts.arcs();
    switch (wanted_) {
        case Wanted::kRest:
            read(parts);
            return false;
        case Wanted::kFirst:
            if (!added_) read(parts);
            if (log_z_ == -INFINITY) return false;
            begin_few(parts);
            pass_odds_ = begin_odds(parts, theta);
            few_pairs_ = pairs < kMany * parts.arcs();
            if (!pass_odds_) read_growth(pairs, theta);
            break;
        case Wanted::kOdds:
            read(parts);
            pass_odds_ = read_odds();
            if (!pass_odds_) {
                read_messages();
                read_growth(pairs, theta);
            }
            ++iterations_;
            break;
        case Wanted::kLogs:
            read(parts);
            ++iterations_;
            break;
    }
    return pass(parts, potentials);
}

bool Loopy::pass(const Parts& parts, const double* potentials) {
    if (!converged_ && iterations_ < effort.iterations) {
        converged_ = pass_odds_ ? send_odds(parts)
                                : send(parts, potentials + parts.arcs()) < effort.tolerance;
        const bool last = converged_ || iterations_ + 1 == effort.iterations;
        if (!pass_odds_ || !converged_) {
            all_ = !few_pairs_ || (last && !pass_odds_);
            partial_ = false;
            wanted_ = pass_odds_ ? Wanted::kOdds : Wanted::kLogs;
            if (pass_odds_) {
                want_odds(parts, potentials, all_);
            } else if (all_) {
                want(parts, potentials, 0.0);
            } else {
                for (const int32_t a : memory_->few) total_[at(a)] = 0.0;
                add_messages(parts);
                want_few(parts, potentials);
            }
            return true;
        }
        ++iterations_;
    }
    passed_odds_ = pass_odds_;
    if (!added_ || !partial_) return false;
    partial_ = false;  // no message has moved
    want(parts, potentials, 0.0);
    wanted_ = Wanted::kRest;
    return true;
}

double Loopy::run(const Parts& parts, const double* potentials, const Trees& trees, double* beliefs,
                  bool added, double least) {
    bool wanted = begin(parts, potentials, trees, added, least);
    while (wanted) wanted = resume(parts, potentials, ask(parts, trees));
    return beliefs && log_z_ > -INFINITY ? tell(parts, potentials, trees, beliefs) : log_z_;
}

bool Loopy::largest(const Parts& parts, const Trees& trees) {
    const auto words = at(parts.n + 1);
    const double* p = nullptr;
    if (!all_) {
        memory_->marginal.resize(std::max(memory_->marginal.size(), words * words));
        more(trees, nullptr, nullptr, memory_->marginal.data());
        p = memory_->marginal.data();
    }
    memory_->best.assign(words, -1);
    memory_->most.assign(words, -INFINITY);
    memory_->second.assign(words, -INFINITY);
    for (int32_t a = 0; a < parts.arcs(); ++a) {
        const auto m = at(parts.modifier[at(a)]);
        const double x = p ? p[at(parts.head[at(a)]) * words + m] : total_[at(a)];
        if (!(x > memory_->second[m])) continue;
        memory_->second[m] = std::min(x, memory_->most[m]);
        if (x > memory_->most[m]) {
            memory_->most[m] = x;
            memory_->best[m] = a;
        }
    }
    for (size_t m = 1; m < words; ++m) {
        const double gap = memory_->most[m] - memory_->second[m];
        if (memory_->best[m] < 0 || !(gap > (p ? kGap * memory_->most[m] : kGap))) return false;
    }
    return true;
}

// Whether these heads, each from 0 to n, are a tree as it is wanted.
bool Loopy::is_tree(const int32_t* heads, const Trees& trees) {
    const auto n = static_cast<int32_t>(memory_->best.size()) - 1;
    memory_->seen.assign(memory_->best.size(), 0);
    int roots = 0;
    for (int32_t m = 1; m <= n; ++m) {
        roots += heads[m - 1] == 0;
        int32_t h = m;
        for (; h > 0 && memory_->seen[at(h)] == 0; h = heads[h - 1]) memory_->seen[at(h)] = m;
        if (h > 0 && memory_->seen[at(h)] == m) return false;
    }
    if (trees.single_root && roots != 1) return false;
    if (trees.kind != dependency::Kind::kProjective) return true;
    for (int32_t m = 1; m <= n; ++m) {  // no arc leaves the words between the ends of another
        const int32_t left = std::min(heads[m - 1], m), right = std::max(heads[m - 1], m);
        for (int32_t k = left + 1; k < right; ++k) {
            if (heads[k - 1] < left || heads[k - 1] > right) return false;
        }
    }
    return true;
}

bool Loopy::heads(const Parts& parts, const double* potentials, const Trees& trees, int32_t* heads,
                  double* beliefs) {
    if (log_z_ == -INFINITY || !largest(parts, trees)) return false;
    const int64_t n = parts.n;
    for (int64_t m = 1; m <= n; ++m) heads[m - 1] = parts.head[at(memory_->best[at(m)])];
    if (!is_tree(heads, trees)) return false;
    const auto place = [&](int64_t m) { return at(int64_t{heads[m - 1]} * (n + 1) + m); };
    if (!all_) {
        memory_->chosen.assign(at((n + 1) * (n + 1)), 0);
        for (int64_t m = 1; m <= n; ++m) memory_->chosen[place(m)] = !memory_->asked[place(m)];
        more(trees, memory_->chosen.data(), memory_->ratio.data());
    }
    for (int64_t m = 1; m <= n; ++m) {
        const auto a = at(memory_->best[at(m)]);
        double x = total_[a];
        if (!all_ && memory_->chosen[place(m)]) {
            x = std::clamp(potentials[a] + memory_->ratio[place(m)], -kMostOdds, kMostOdds);
        }
        beliefs[m - 1] = logistic(x);
    }
    return true;
}

}  // namespace vs::parser
