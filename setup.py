"""Builds the native modules. Everything else about the package stands in pyproject.toml.

Each SIMD level of an engine is one translation unit (ext/forest/level.cpp) with its own flags; the
level is chosen when the package is imported, so one wheel serves every CPU of an architecture.

VALUESPARSE_SANITIZE=thread (or address,undefined) builds with sanitizers, VALUESPARSE_WERROR=1
makes warnings errors, VALUESPARSE_LEVELS=scalar,x86-64-v3 leaves out the levels it does not name.
Give each a copy of the sources of its own: an object that is there is not compiled again.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

EXT = Path("ext")
CYTHON = Path("build", "cython")  # where it puts what it generates
# Compiled once per SIMD level and linked into the extension.
LEVEL_SOURCES = {
    "valuesparse._forest": str(EXT / "forest" / "level.cpp"),
    "valuesparse._higher": str(EXT / "higher" / "level.cpp"),
    "valuesparse._hmm": str(EXT / "hmm" / "level.cpp"),
    "valuesparse._junction": str(EXT / "junction" / "level.cpp"),
    "valuesparse._messages": str(EXT / "messages" / "level.cpp"),
    "valuesparse._parsing": str(EXT / "dependency" / "level.cpp"),
    "valuesparse._supports": str(EXT / "supports" / "level.cpp"),
}
MSVC = sys.platform == "win32" and "mingw" not in sysconfig.get_platform()


def choose_architecture() -> None:
    """On macOS, build for one architecture: the SIMD levels are those of one.

    A universal2 Python compiles for two at once unless ARCHFLAGS says otherwise; without it, the
    architecture of this process is built for, and the wheel is named after it.
    """
    if sys.platform != "darwin":
        return
    flags = os.environ.setdefault("ARCHFLAGS", f"-arch {platform.machine()}")
    wanted = set(flags.split()) & {"arm64", "x86_64"}
    if len(wanted) > 1:
        raise SystemExit(
            f"ARCHFLAGS={flags!r} asks for two architectures at once; build a wheel for each, with "
            "ARCHFLAGS='-arch arm64' and ARCHFLAGS='-arch x86_64', and join them with delocate-fuse"
        )
    name, version, architecture = sysconfig.get_platform().split("-", 2)
    if architecture == "universal2" and wanted:
        (one,) = wanted
        if one == "arm64" and int(version.split(".")[0]) < 11:
            version = "11.0"  # the first that ran on it
        os.environ.setdefault("_PYTHON_HOST_PLATFORM", f"{name}-{version}-{one}")


def machine() -> str:
    """Architecture that is built for: cross builds on macOS say so in ARCHFLAGS."""
    flags = os.environ.get("ARCHFLAGS", "")
    if sys.platform == "darwin" and flags:
        return "arm64" if "arm64" in flags else "x86_64"
    return platform.machine().lower()


def levels() -> list[tuple[str, list[str]]]:
    """(name of VS_LEVEL, compiler flags) of every level of this architecture that is wanted."""
    # Kernels are written in vectors; what -O3 would unroll, each.h does, in two thirds of the time.
    optimised = MSVC or os.environ.get("VALUESPARSE_SANITIZE")  # by flags of their own
    quick = [] if optimised else ["-O2", "-ftree-vectorize"]
    if machine() in ("x86_64", "amd64"):
        of = {
            "scalar": ("SCALAR", []),
            "x86-64-v2": ("V2", [] if MSVC else ["-march=x86-64-v2", *quick]),
            "x86-64-v3": ("V3", ["/arch:AVX2" if MSVC else "-march=x86-64-v3", *quick]),
            "x86-64-v4": ("V4", ["/arch:AVX512" if MSVC else "-march=x86-64-v4", *quick]),
        }
    elif machine() in ("arm64", "aarch64"):
        of = {"scalar": ("SCALAR", []), "neon": ("NEON", quick)}
    else:
        of = {"scalar": ("SCALAR", [])}
    wanted = os.environ.get("VALUESPARSE_LEVELS")
    names = set(wanted.split(",")) if wanted else set(of)
    if not {"scalar"} <= names <= set(of):
        raise SystemExit(
            f"VALUESPARSE_LEVELS={wanted!r} must name scalar and any of {', '.join(of)}, "
            "with commas between them"
        )
    chosen = [pair for name, pair in of.items() if name in names]
    if len(chosen) > 1 and not MSVC:
        # Only tests run it where there is a better one, and it takes three times as long at -O3.
        chosen[0][1].append("-O1")
    return chosen


def common_flags() -> list[str]:
    """Compiler flags of every translation unit."""
    # No contraction: the compiler must not turn a * b + c into a fused operation in one copy of a
    # kernel and not in another, or equal inputs would give different bits.
    strict = os.environ.get("VALUESPARSE_WERROR") == "1"
    if MSVC:
        flags = ["/std:c++17", "/O2", "/fp:precise", "/EHsc", "/D_CRT_SECURE_NO_WARNINGS"]
        return [*flags, "/W3", "/WX"] if strict else flags
    flags = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-g0"]
    # Nothing but the function that opens a module is called from outside it.
    flags.append("-fvisibility=hidden")
    # A kernel's speed must not hang on the size of what happens to be linked before it.
    flags.append("-falign-functions=64")
    if strict:
        flags += ["-Wall", "-Wextra", "-Werror"]
    sanitize = os.environ.get("VALUESPARSE_SANITIZE")
    if sanitize:
        flags += [f"-fsanitize={sanitize}", "-O1", "-g1", "-fno-omit-frame-pointer"]
        # Half of the time to compile, for what AddressSanitizer and the processor stop as well.
        flags += ["-fno-sanitize=alignment,null,object-size,vptr"]
        if "undefined" in sanitize:  # of which neither compiler thinks that this is a part
            flags += ["-fsanitize=float-cast-overflow"]
    return flags


def link_flags() -> list[str]:
    """Linker flags of every extension module."""
    sanitize = os.environ.get("VALUESPARSE_SANITIZE")
    flags = [] if MSVC else ["-pthread"] if sys.platform.startswith("linux") else []
    return flags + ([f"-fsanitize={sanitize}"] if sanitize else [])


class BuildExt(build_ext):
    """Compiles SIMD levels and what Cython generates with flags of their own, the rest together."""

    def finalize_options(self) -> None:
        """Build the extensions side by side unless told otherwise."""
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext: Extension) -> None:
        """Compile the SIMD levels in parallel, what Cython generates, then the rest."""
        objects, sources = [], list(ext.sources)
        source = LEVEL_SOURCES.get(ext.name)
        if source is not None:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                objects += pool.map(lambda pair: self.compile_level(ext, source, *pair), levels())
        # It hands over pointers, and takes twice as long at -O3; that of _crf fills arrays as well.
        flags = [] if MSVC or ext.name == "valuesparse._crf" else ["-O1"]
        for generated in [s for s in ext.sources if CYTHON in Path(s).parents]:
            ext.sources.remove(generated)
            made = self.compile_apart(ext, generated, self.build_temp, flags, ext.define_macros)
            objects.append(made)
        ext.extra_objects = [*(ext.extra_objects or []), *objects]
        ext.sources = [self.join(ext)]
        ext.depends = [*ext.depends, *sources]
        super().build_extension(ext)

    def join(self, ext: Extension) -> str:
        """Return one file that includes all sources of an extension: it takes half of the time."""
        joined = Path(self.build_temp, "joined", ext.name.rpartition(".")[2] + ".cpp")
        text = "".join(f'#include "{Path(s).relative_to(EXT).as_posix()}"\n' for s in ext.sources)
        if not joined.exists() or joined.read_text() != text:
            joined.parent.mkdir(parents=True, exist_ok=True)
            joined.write_text(text)
        return str(joined)

    def compile_level(self, ext: Extension, source: str, level: str, flags: list[str]) -> str:
        """Return the object file of one level."""
        folder = os.path.join(self.build_temp, f"level_{level.lower()}")
        macros = [("VS_LEVEL", f"VS_LEVEL_{level}"), ("VS_NS", f"level_{level.lower()}")]
        return self.compile_apart(ext, source, folder, flags, macros)

    def compile_apart(
        self,
        ext: Extension,
        source: str,
        folder: str,
        flags: list[str],
        macros: Sequence[tuple[str, str | None]],
    ) -> str:
        """Return an object file made with these flags as well, compiled unless up to date."""
        (expected,) = self.compiler.object_filenames([source], output_dir=folder)
        newest = max(os.path.getmtime(p) for p in [*ext.depends, source, "setup.py"])
        if not self.force and os.path.exists(expected) and os.path.getmtime(expected) > newest:
            return expected
        (made,) = self.compiler.compile(
            [source],
            output_dir=folder,
            macros=list(macros),
            include_dirs=ext.include_dirs,
            extra_postargs=[*ext.extra_compile_args, *flags],
        )
        return made


def depending_on(*folders: str) -> dict[str, Any]:
    """Return the arguments of an extension that includes headers from these folders of ext/."""
    folders = (*folders, "core", "pool", "rows", "simd")
    headers = [p for folder in folders for p in (EXT / folder).glob("*.h")]
    return {
        "include_dirs": [str(EXT), numpy.get_include()],
        "language": "c++",
        "extra_compile_args": common_flags(),
        "extra_link_args": link_flags(),
        "depends": sorted(map(str, [*headers, *EXT.rglob("*.pxi")])),
    }


def description() -> str:
    """Return README.md with absolute links: PyPI shows it beside nothing else of the repository."""
    project = Path("pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'^Repository = "(.+)"$', project, re.MULTILINE)
    if found is None:
        raise SystemExit("pyproject.toml has no [project.urls] with a Repository")
    text = Path("README.md").read_text(encoding="utf-8")
    text = re.sub(r"(!\[[^\]]*\]\()(?!https?:|#)", rf"\1{found[1]}/raw/main/", text)
    return re.sub(r"((?<!!)\[[^\]]*\]\()(?!https?:|#)", rf"\1{found[1]}/blob/main/", text)


choose_architecture()
built = [(f"VS_HAVE_{level}", "1") for level, _ in levels()]
numpy_api = [("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")]

extensions = [
    Extension(
        "valuesparse._pool",
        [
            "ext/pool.pyx",
            "ext/pool/fork.cpp",
            "ext/pool/gate.cpp",
            "ext/pool/pool.cpp",
            "ext/pool/record.cpp",
            "ext/pool/buffers.cpp",
        ],
        define_macros=numpy_api,
        **depending_on(),
    ),
    Extension(
        "valuesparse._crf",
        [
            "ext/crf.pyx",
            "ext/crf/blocks.cpp",
            "ext/crf/dictionary.cpp",
            "ext/crf/encoder.cpp",
            "ext/crf/evaluator.cpp",
            "ext/crf/online.cpp",
            "ext/crf/scorer.cpp",
            "ext/crf/weights.cpp",
            "ext/core/scratch.cpp",
            "ext/rows/sparse_table.cpp",
        ],
        define_macros=numpy_api,
        **depending_on("crf", "forest"),
    ),
    Extension(
        "valuesparse._forest",
        [
            "ext/forest.pyx",
            "ext/forest/branching_call.cpp",
            "ext/forest/call.cpp",
            "ext/forest/cut.cpp",
            "ext/forest/dead.cpp",
            "ext/forest/dispatch.cpp",
            "ext/forest/entropy.cpp",
            "ext/forest/in_double.cpp",
            "ext/forest/layout.cpp",
            "ext/forest/listing.cpp",
            "ext/forest/nbest.cpp",
            "ext/forest/path_call.cpp",
            "ext/forest/path_cuts.cpp",
            "ext/forest/path_decode.cpp",
            "ext/forest/path_islands.cpp",
            "ext/forest/plan.cpp",
            "ext/forest/score.cpp",
            "ext/forest/worth.cpp",
            "ext/rows/pack_plan.cpp",
            "ext/rows/sparse_table.cpp",
            "ext/core/scratch.cpp",
            "ext/core/session.cpp",
        ],
        define_macros=[*numpy_api, *built],
        **depending_on("forest", "islands"),
    ),
    Extension(
        "valuesparse._higher",
        [
            "ext/higher.pyx",
            "ext/higher/answer.cpp",
            "ext/higher/best.cpp",
            "ext/higher/draw.cpp",
            "ext/higher/second.cpp",
            "ext/higher/segments.cpp",
            "ext/higher/tables.cpp",
        ],
        define_macros=[*numpy_api, *built],
        **depending_on("higher"),
    ),
    Extension(
        "valuesparse._junction",
        [
            "ext/junction.pyx",
            "ext/junction/cliques.cpp",
            "ext/junction/cost.cpp",
            "ext/junction/domains.cpp",
            "ext/junction/down.cpp",
            "ext/junction/draw.cpp",
            "ext/junction/elimination.cpp",
            "ext/junction/factors.cpp",
            "ext/junction/group.cpp",
            "ext/junction/index.cpp",
            "ext/junction/kept_parts.cpp",
            "ext/junction/many.cpp",
            "ext/junction/many_rows.cpp",
            "ext/junction/measure.cpp",
            "ext/junction/part.cpp",
            "ext/junction/propagation.cpp",
            "ext/junction/schedule.cpp",
            "ext/junction/segments.cpp",
            "ext/junction/segments_islands.cpp",
            "ext/junction/slices.cpp",
            "ext/junction/solver.cpp",
            "ext/junction/tile.cpp",
            "ext/junction/up.cpp",
            "ext/junction/walk.cpp",
            "ext/junction/workspace.cpp",
        ],
        define_macros=[*numpy_api, *built],
        **depending_on("junction", "islands"),
    ),
    Extension(
        "valuesparse._hmm",
        ["ext/hmm.pyx", "ext/hmm/hmm.cpp"],
        define_macros=[*numpy_api, *built],
        **depending_on("hmm"),
    ),
    Extension(
        "valuesparse._io",
        ["ext/io.pyx", "ext/io/crfsuite_names.cpp"],
        **depending_on("io"),
    ),
    Extension(
        "valuesparse._messages",
        [
            "ext/messages.pyx",
            "ext/messages/ascent.cpp",
            "ext/messages/beliefs.cpp",
            "ext/messages/crossings.cpp",
            "ext/messages/decode.cpp",
            "ext/messages/field.cpp",
            "ext/messages/flood.cpp",
            "ext/messages/forests.cpp",
            "ext/messages/layout.cpp",
            "ext/messages/mean_field.cpp",
            "ext/messages/orders.cpp",
            "ext/messages/pairs.cpp",
            "ext/messages/pairs_layout.cpp",
            "ext/messages/pairs_values.cpp",
            "ext/messages/pieces.cpp",
            "ext/messages/resistance.cpp",
            "ext/messages/scopes.cpp",
            "ext/messages/screen.cpp",
            "ext/messages/structured_factor.cpp",
            "ext/messages/table_factor.cpp",
            "ext/dual/active_set.cpp",
            "ext/dual/cuts.cpp",
            "ext/dual/dual.cpp",
            "ext/dual/newton.cpp",
            "ext/dual/problem.cpp",
            "ext/dual/rounding.cpp",
            "ext/dual/solver.cpp",
        ],
        define_macros=[*numpy_api, *built],
        **depending_on("messages", "factors", "dependency", "dual"),
    ),
    Extension(
        "valuesparse._parser",
        [
            "ext/parser.pyx",
            "ext/parser/arcs.cpp",
            "ext/parser/bounds.cpp",
            "ext/parser/candidates.cpp",
            "ext/parser/class_weights.cpp",
            "ext/parser/dictionary.cpp",
            "ext/parser/features.cpp",
            "ext/parser/labels.cpp",
            "ext/parser/learner.cpp",
            "ext/parser/loopy.cpp",
            "ext/parser/pair_scores.cpp",
            "ext/parser/parts.cpp",
            "ext/parser/predict.cpp",
            "ext/parser/program.cpp",
            "ext/parser/prune.cpp",
            "ext/parser/relaxed.cpp",
            "ext/parser/templates.cpp",
            "ext/parser/words.cpp",
            "ext/parser/worker.cpp",
        ],
        define_macros=numpy_api,
        **depending_on("parser", "dependency", "factors", "dual"),
    ),
    Extension(
        "valuesparse._parsing",
        [
            "ext/parsing.pyx",
            "ext/parsing/batch.cpp",
            "ext/dependency/trees.cpp",
            "ext/core/scratch.cpp",
            "ext/core/session.cpp",
        ],
        define_macros=[*numpy_api, *built],
        **depending_on("parsing", "dependency"),
    ),
    Extension(
        "valuesparse._supports",
        ["ext/supports.pyx", "ext/supports/call.cpp", "ext/supports/order.cpp"],
        define_macros=[*numpy_api, *built],
        **depending_on("supports"),
    ),
    Extension(
        "valuesparse._vectors",
        ["ext/vectors.pyx", "ext/vectors/vectors.cpp"],
        define_macros=numpy_api,
        **depending_on("vectors"),
    ),
]

modules = cythonize(
    extensions,
    build_dir=str(CYTHON),
    compiler_directives={
        "language_level": 3,
        "boundscheck": False,
        "wraparound": False,
        "embedsignature": True,
    },
)
# Cython copies headers beside what it generates. Only GCC sees that two copies are one
# `#pragma once`; to others everything in them is defined twice.
for header in CYTHON.rglob("*.h"):
    header.unlink()

setup(
    cmdclass={"build_ext": BuildExt},
    ext_modules=modules,
    long_description=description(),
    long_description_content_type="text/markdown",
)
