# Requests to forests, for the modules that make them.

cdef extern from "forest/layout.h" namespace "vs" nogil:
    cdef cppclass Layout:
        int64_t n, n_trees
        vector[int64_t] root
        vector[int32_t] tree, slot
        int problem
        int64_t where


cdef extern from "forest/request.h" namespace "vs" nogil:
    cdef enum class Tables(int):
        kShared, kTyped, kPerEdge
    cdef cppclass ForestModel:
        ForestModel()
        Chains arrays
        const Layout* layout
        Tables tables
        int64_t n_tables
        const int64_t* type
        const int64_t* parent
    cdef cppclass CPrepared "vs::Prepared":
        pass
    cdef cppclass Comparison:
        const void* rows
        const int32_t* label
        const double* error
        const double* growth
        const double* extra
        double* far
        double* wrong
    cdef cppclass Request:
        Request()
        ForestModel model
        const CPrepared* prepared
        int threads
        double zeta
        int64_t revisit
        void* marginals
        double* log_z
        int32_t* islands
        void* pairwise
        int64_t pairwise_first, pairwise_last
        const int64_t* pairwise_row
        double* expectations
        const double* weights
        const SparseTable* pairs
        double* log_left
        double* log_right
        double* log_mass
        double* energies
        int64_t* states
        const double* uniforms
        int64_t n_best, size
        const vector[int64_t]* components
        const Comparison* compared
        bint narrow
    cdef cppclass Report:
        int status
        int64_t component, position
        Counts counts
    cdef cppclass ForestApi:
        Report (*infer)(const Request&, Control&) except +
        Report (*decode)(const Request&, Control&) except +
        CPrepared* (*prepare)(const Chains&) except +
        void (*release)(CPrepared*) noexcept
        const SparseTable* (*listed_by)(const CPrepared*) noexcept
