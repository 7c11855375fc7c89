#include "dual/dual.h"

#include <new>

#include "dual/solver.h"

namespace vs::dual {
namespace {

Status decode(const Graph& graph, double tolerance, int64_t max_iterations, Control* control,
              Answer* answer) noexcept {
    try {
        Problem problem;
        if (const Status s = problem.lay_out(graph, control); s != kOk) return s;
        DualSolver solver(problem);
        const Status status = solver.run(tolerance, max_iterations, kCaller, control);
        if (status != kOk) return status;
        for (int64_t v = 0; v < graph.n; ++v) answer->point[v] = problem.known[at(v)] == 1;
        for (int64_t v = 0; v < problem.n_open(); ++v) {
            answer->point[problem.open[at(v)]] = solver.point[at(v)];
        }
        solver.rounding.states(answer->states);
        answer->score =
            solver.rounding.best() > -INFINITY ? problem.score(answer->states) : -INFINITY;
        answer->upper = solver.upper;
        answer->iterations = solver.iterations;
        answer->converged = solver.converged;
        answer->integral = solver.integral;
        return kOk;
    } catch (const std::bad_alloc&) {
        return kNoMemory;
    }
}

constexpr DualApi kApi{decode};

}  // namespace

const DualApi* dual_api() noexcept { return &kApi; }

}  // namespace vs::dual
