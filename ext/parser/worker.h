// One sentence after the other: its parts, their scores, sums over trees and the loss.
#pragma once

#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "parser/arcs.h"
#include "parser/loopy.h"
#include "parser/parts.h"
#include "parser/program.h"
#include "parser/relaxed.h"
#include "dependency/trees.h"

namespace vs::parser {

// Sentences laid end to end, encoded, with their trees.
struct Corpus {
    int64_t sentences = 0;
    const int64_t* offset = nullptr;  // (sentences + 1,) first word of each
    const uint32_t* words = nullptr;  // (words, kFields)
    const int32_t* heads = nullptr;   // (words,) 0 is the root
    // The arcs that are looked at, by modifier and head; null: all.
    const int64_t* arc_at = nullptr;  // (sentences + 1,)
    const int32_t *arc_head = nullptr, *arc_modifier = nullptr;

    int64_t size(int64_t i) const { return offset[i + 1] - offset[i]; }
    const uint32_t* sentence(int64_t i) const { return words + offset[i] * kFields; }
    Listed arcs(int64_t i) const {
        if (!arc_at) return {};
        return {arc_at[i + 1] - arc_at[i], arc_head + arc_at[i], arc_modifier + arc_at[i]};
    }
    const int32_t* gold(int64_t i) const { return heads + offset[i]; }
};

// Algorithm 1 of MSFXM10 with the loss L_{beta,gamma}.
struct Rule {
    double beta = 1.0, gamma = 0.0;
    double longest = 0.0;  // step
};

// Whether memory ran out in a task of the pool, none of which may throw.
class Shortage {
  public:
    // f(); without memory, no task after it begins.
    template <class F>
    void watch(Control* control, const F& f) noexcept {
        try {
            f();
        } catch (const std::bad_alloc&) {
            tell(control);
        }
    }
    void tell(Control* control) noexcept {
        any_.store(true);
        control->stop.store(1);
    }
    void forget() { any_.store(false); }
    // How a call has ended.
    Status status(const Control* control) const {
        return any_.load() ? kNoMemory : control->stop.load() ? kCancelled : kOk;
    }

  private:
    std::atomic<bool> any_{false};
};

// Memory of one worker for one sentence after the other.
class Worker {
  public:
    // Workers of one thread may have memory in common.
    Worker(const Templates& templates, const Trees& trees, Memory* memory = nullptr);

    // Without `pairs` arcs alone, whatever the order.
    void read(const uint32_t* words, int64_t n, const Listed& arcs, bool pairs = true);
    // The same without features, of arcs or of all parts: their scores will be told, those of pairs
    // with `told`.
    void list(const uint32_t* words, int64_t n, const Listed& arcs, bool pairs, bool told = false);
    // The scores of arcs, of a sentence of these.
    void tell(const ArcScores& scores, int64_t sentence);
    // Pairs [first, last) are to be scored with those of other sentences; then their scores.
    PairScores::Mark ask_pairs(int64_t first, int64_t last, PairScores* scores) const;
    void tell_pairs(int64_t first, int64_t last, PairScores::Mark mark, const PairScores& scores);
    const Parts& parts() const { return parts_; }
    const Scorer& scorer() const { return scorer_; }
    const Trees& trees() const { return trees_; }
    // The potentials of the parts, kept here.
    template <class T>
    const double* score(const T* weights) {
        scores_.resize(at(parts_.size()));
        scorer_.score(weights, parts_, known_, parts_.size(), scores_.data());
        return scores_.data();
    }
    const double* known() const { return scores_.data(); }  // those that were read
    // The same by pieces: memory for all, then those of parts [first, last).
    void begin_scores() { scores_.resize(at(parts_.size())); }
    template <class T>
    void score(const T* weights, int64_t first, int64_t last) {
        scorer_.score(weights, parts_, first, last, scores_.data());
    }
    // log Z and the marginals of parts under these potentials; -inf: no tree.
    double marginals(const double* potentials, double* out);
    // The same of messages, in steps as below: at the scores that are known, out (parts,).
    bool begin_messages() {
        loopy_.messages.clear();
        return loopy_.begin(parts_, scores_.data(), trees_, false, 0.0);
    }
    bool resume_messages(double log_z) { return loopy_.resume(parts_, scores_.data(), log_z); }
    void tell_messages(double* out) {
        if (loopy_.log_z() > -INFINITY) loopy_.tell(parts_, scores_.data(), trees_, out);
    }
    // Relaxed inference in a sentence that was read without pairs, in steps: those that are true
    // want `tree` to be summed up, with log Z for the one after them. The arcs; then, once
    // the pairs of all sentences that have begun are scored, all of `read`, all of `end`: beliefs
    // (parts,), null where it is `Relaxed::quick` and `heads` is asked.
    bool begin_relaxed(const Relaxed::Options& options, Relaxed::Shared* shared);
    bool resume_relaxed(const Relaxed::Options& options, Relaxed::Shared* shared, double log_z) {
        return relaxed_.resume(place(options, shared), log_z);
    }
    void read_relaxed(const Relaxed::Options& options, Relaxed::Shared* shared) {
        relaxed_.read(options, shared);
    }
    bool end_relaxed(const Relaxed::Options& options, Relaxed::Shared* shared,
                     std::vector<double>* beliefs) {
        return relaxed_.begin_end(place(options, shared), beliefs);
    }
    bool resume_end(const Relaxed::Options& options, Relaxed::Shared* shared,
                    std::vector<double>* beliefs, double log_z) {
        return relaxed_.resume_end(place(options, shared), beliefs, log_z);
    }
    // After an end without beliefs: heads and theirs (n,). False: all beliefs (parts,) have to be
    // looked at, which are these.
    bool heads(int32_t* heads, double* own, std::vector<double>* beliefs);
    // All of these, of one sentence; log Z.
    double relax(const Relaxed::Options& options, std::vector<double>* beliefs,
                 Relaxed::Shared* shared);
    // What is to be summed up, and what is wanted of it; the sums.
    dependency::Sentence tree() const { return loopy_.tree(parts_, trees_); }
    dependency::Arcs answers() const { return loopy_.answers(); }
    void tell(const dependency::Sums& sums) { *loopy_.sums() = sums; }
    // Other memory for what follows.
    void use(Memory* memory) {
        memory_ = memory;
        loopy_.use(memory);
    }
    const Relaxed::Counts& counts() const { return relaxed_.counts; }
    Loopy& loopy() { return loopy_; }
    // The score and the heads (n,) of the tree whose arcs have most.
    double best(const double* potentials, const int32_t** heads);
    // The parts (parts,) of the point that scores best in the linear program of these potentials:
    // the best tree where it is one. As `Program::solve`.
    Status point(const double* potentials, Control* control, double* out);
    // L_{beta,gamma} of the tree `gold` at the potentials kept here, which it changes, and the
    // residual of its gradient. kOk, kCancelled or kNoMemory.
    Status loss(const int32_t* gold, const Rule& rule, Control* control, double* loss);
    const std::vector<double>& residual() const { return residual_; }
    // Whether its program was cut short: parts of non-projectivity counted for more than they are
    // worth.
    bool cut_short() const { return cut_short_; }

  private:
    template <class F>
    void each_pair(int64_t first, int64_t last, F f) const;
    void list(int64_t n, const Listed& arcs, bool pairs);
    dependency::Sentence dense(const double* potentials);
    Relaxed::Place place(const Relaxed::Options& options, Relaxed::Shared* shared) {
        return {scorer_.sentence(), trees_, options, &parts_, &scores_, &loopy_, shared};
    }

    const Templates& templates_;
    const Trees trees_;
    const std::unique_ptr<Memory> own_;
    Memory* memory_;
    Parts parts_;
    Scorer scorer_;
    Loopy loopy_;
    Relaxed relaxed_;
    Program program_;
    std::vector<double> table_, p_, scores_, residual_, gold_;
    std::vector<int64_t> best_;
    std::vector<int32_t> heads_;
    int64_t known_ = 0;  // parts that have been scored
    bool cut_short_ = false;
};

}  // namespace vs::parser
