// The interpreter's part in reading attributes from Python objects.
#pragma once

#include <Python.h>

#include <cstdint>

#include "simd/level.h"

// Text whose bytes are UTF-8 as they stand; null for any other object.
static inline const char* vs_ascii(PyObject* o, int64_t* n) {
    if (!PyUnicode_Check(o) || !PyUnicode_IS_COMPACT_ASCII(o)) return nullptr;
    *n = PyUnicode_GET_LENGTH(o);
    return reinterpret_cast<const char*>(PyUnicode_1BYTE_DATA(o));
}
// Prefetches the items after item i of a list: strings lie all over memory, and
// waiting for each would take most of the time. Without a GIL others may change the lists.
static inline void vs_look_ahead(PyObject* items, Py_ssize_t i) {
#ifndef Py_GIL_DISABLED
    const Py_ssize_t n = PyList_GET_SIZE(items);
    if (i + 3 < n) VS_PREFETCH_READ(PyList_GET_ITEM(items, i + 3));
    if (i + 2 < n && PyList_CheckExact(PyList_GET_ITEM(items, i + 2))) {
        VS_PREFETCH_READ(((PyListObject*)PyList_GET_ITEM(items, i + 2))->ob_item);
    }
    if (i + 1 < n && PyList_CheckExact(PyList_GET_ITEM(items, i + 1))) {
        PyObject* next = PyList_GET_ITEM(items, i + 1);
        const Py_ssize_t m = PyList_GET_SIZE(next) < 64 ? PyList_GET_SIZE(next) : 64;
        for (Py_ssize_t j = 0; j < m; ++j) {
            const char* name = (const char*)PyList_GET_ITEM(next, j);
            VS_PREFETCH_WRITE(name);
            VS_PREFETCH_READ(name + 63);
        }
    }
#else
    (void)items;
    (void)i;
#endif
}
static inline int vs_deeper() {
    return Py_EnterRecursiveCall(" while reading nested attributes") ? -1 : 0;
}
static inline int vs_ready(PyObject* o) {
#if PY_VERSION_HEX < 0x030C0000
    return PyUnicode_READY(o);
#else
    (void)o;
    return 0;
#endif
}
