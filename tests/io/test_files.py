"""Files are replaced whole, durably, with their permissions, and errors name them."""

from __future__ import annotations

import errno
import gzip
import os
import random
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import children
import pytest

import valuesparse as vs
from valuesparse.io import ModelFormatError, _files, _text
from valuesparse.io._files import check_target, read_file, replacing, write_bytes, write_text

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX permissions and folders")


@pytest.fixture(autouse=True)
def _umask() -> Any:
    if os.name == "nt":
        yield
        return
    old = os.umask(0o022)
    yield
    os.umask(old)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_bytes_are_on_disk_before_the_name_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, Any]] = []
    fsync, replace = os.fsync, os.replace

    def watched(handle: int) -> None:
        status = os.fstat(handle)
        told.append(("folder", None) if stat.S_ISDIR(status.st_mode) else ("file", status.st_size))
        fsync(handle)

    def renamed(source: Any, target: Any) -> None:
        told.append(("rename", Path(target).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", watched)
    monkeypatch.setattr(os, "replace", renamed)
    for _ in range(2):  # a new file, and one that is there
        told.clear()
        write_bytes(tmp_path / "model", b"12345")
        assert told[:2] == [("file", 5), ("rename", "model")]
        assert told[2:] == ([] if os.name == "nt" else [("folder", None)])


def test_a_file_system_that_cannot_sync_folders_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync
    number = errno.EINVAL

    def refusing(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", refusing)
    write_bytes(tmp_path / "model", b"new")
    assert (tmp_path / "model").read_bytes() == b"new"
    if os.name != "nt":
        number = errno.EIO
        with pytest.raises(OSError, match=r"model'$") as caught:
            write_bytes(tmp_path / "model", b"newer")
        assert caught.value.errno == errno.EIO


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_a_rewritten_file_has_its_mode_from_its_first_byte(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(mode)
    with replacing(path) as file:
        (temporary,) = set(tmp_path.iterdir()) - {path}
        assert (mode_of(temporary), temporary.stat().st_size) == (mode, 0)
        file.write(b"new")
        file.flush()
        assert mode_of(temporary) == mode
    assert (path.read_bytes(), mode_of(path)) == (b"new", mode)


@posix
def test_nobody_else_can_open_the_new_file_before_its_mode_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o600)
    seen: list[int] = []
    opened = os.open

    def watched(name: Any, flags: int, mode: int = 0o777, **more: Any) -> int:
        handle = opened(name, flags, mode, **more)
        if flags & os.O_CREAT:
            seen.append(stat.S_IMODE(os.fstat(handle).st_mode))
        return handle

    monkeypatch.setattr(os, "open", watched)
    write_bytes(path, b"new")
    assert seen == [0o600]


@posix
def test_a_group_that_cannot_be_kept_gives_no_rights_to_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")
    path.chmod(0o660)
    seen = os.fstat

    def strange(handle: int) -> Any:
        real = seen(handle)
        return os.stat_result((*real[:5], real.st_gid + 1, *real[6:]))

    def refused(*_: Any) -> None:
        raise PermissionError(errno.EPERM, "not a member")

    monkeypatch.setattr(os, "fstat", strange)
    monkeypatch.setattr(os, "fchown", refused)
    write_bytes(path, b"new")
    assert (path.read_bytes(), mode_of(path)) == (b"new", 0o600)


@posix
def test_a_new_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    write_bytes(tmp_path / "a", b"")
    os.umask(0o077)
    write_bytes(tmp_path / "b", b"")
    assert (mode_of(tmp_path / "a"), mode_of(tmp_path / "b")) == (0o644, 0o600)


@posix
def test_links_stay_links_and_pipes_are_written_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    for text in (b"new", b"newer"):  # where it leads nowhere, too
        check_target(tmp_path / "link")
        write_bytes(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "file").read_bytes() == text
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    check_target(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"through")
    reader.join(10)
    assert got == [b"through"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "link", "pipe"]
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match=r"loop'$"):
        check_target(tmp_path / "loop")


def test_a_block_that_raises_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")

    def interrupted() -> None:
        with replacing(path, ".part") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_errors_of_other_files_keep_their_names(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "out") as file:
        file.write(read_file(tmp_path / "in"))
    assert caught.value.filename == str(tmp_path / "in")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [check_target, lambda path: write_bytes(path, b"x")])
def test_what_cannot_be_written_is_said_with_its_name(tmp_path: Path, write: Any) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    wrong = {"folder": OSError, "none/file": FileNotFoundError, "file/file": OSError}
    if os.name != "nt":
        wrong |= {"n" * 300: OSError}
    for name, kind in wrong.items():
        with pytest.raises(kind) as caught:
            write(tmp_path / name)
        assert caught.value.filename == str(tmp_path / name), name
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder"]
    write(tmp_path / ("ü" * 100))


@posix
def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("m" * 255)
    with replacing(path, ".part") as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


FORBIDDEN = """
import os, sys, tempfile
from pathlib import Path
from valuesparse.io._files import check_target, write_bytes
with tempfile.TemporaryDirectory() as name:
    folder, file = Path(name) / "folder", Path(name) / "file"
    folder.mkdir()
    file.write_bytes(b"old")
    folder.chmod(0o555)
    file.chmod(0o444)
    Path(name).chmod(0o777)
    if os.geteuid() == 0:
        os.setegid(65534)
        os.seteuid(65534)
    for act in (check_target, lambda path: write_bytes(path, b"x")):
        for path in (folder / "model", file):
            try:
                act(path)
            except PermissionError as error:
                print(error.filename == str(path))
    print(file.read_bytes() == b"old", sorted(p.name for p in Path(name).iterdir()))
    if os.getuid() == 0:
        os.seteuid(0)
    folder.chmod(0o777)
"""


@posix
def test_permissions_are_heeded_by_the_check_and_by_the_writing() -> None:
    done = children.run(FORBIDDEN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:5] == [*["True"] * 4, "True ['file', 'folder']"]


FULL = """
import resource, sys
from pathlib import Path
from valuesparse.io._files import replacing, write_bytes, write_text
path = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
def piecemeal():
    with replacing(path) as file:
        for _ in range(20_000):
            file.write(b"x")
for act in (lambda: write_bytes(path, bytes(20_000)), lambda: write_text(path, "x" * 20_000),
            piecemeal):
    try:
        act()
    except OSError as error:
        print(type(error).__name__, error.errno, error.filename == str(path))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no RLIMIT_FSIZE")
def test_a_disk_that_is_full_leaves_the_old_file_and_names_it(tmp_path: Path) -> None:
    path = tmp_path / "model"
    path.write_bytes(b"old")
    done = children.run(FULL, str(path))
    assert done.stdout.splitlines() == [f"OSError {errno.EFBIG} True"] * 3, done.stderr
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_text_goes_to_paths_and_files_alike(tmp_path: Path) -> None:
    write_text(tmp_path / "a.gz", "text\n")
    assert (tmp_path / "a.gz").read_bytes()[:2] == b"\x1f\x8b"
    with pytest.raises(TypeError, match="target must be a path or a file, not int"):
        write_text(5, "text")  # type: ignore[arg-type]


MEASURED = """
import sys
from pathlib import Path
import valuesparse as vs
from valuesparse.io import read_uai_evidence, read_uai_result
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
read = {"uai": vs.read_uai, "fg": vs.read_fg, "evidence": read_uai_evidence,
        "result": read_uai_result, "bif": vs.read_bif}[sys.argv[2]]
Path("/proc/self/clear_refs").write_text("5")
before, said = peak(), "read"
try:
    read(sys.argv[1])
except ValueError as error:
    said = str(error)
print(said)
print(peak() - before)
"""


def observed(count: int) -> bytes:
    return b"%d %s" % (count, b" ".join(b"%d 1" % v for v in range(count)))


def alone(count: int) -> bytes:
    """Return a network of variables without parents."""
    block = b"variable v%d {type discrete[1]{x};} probability(v%d) {table 1;}\n"
    return b"".join(block % (v, v) for v in range(count))


def one_variable(states: int) -> bytes:
    """Return a network of one variable, which is always in its first state."""
    names = b",".join(b"s%d" % i for i in range(states))
    return b"variable v {type discrete[%d]{%s};} probability(v) {table 1 %s;}" % (
        states, names, b"0 " * (states - 1),
    )  # fmt: skip


def by_default(parents: int, states: int) -> bytes:
    """Return a network of a large table that a row stands for."""
    block = b"variable v%d {type discrete[2]{x,y};} probability(v%d) {table .5 .5;}\n"
    above = b"".join(block % (v, v) for v in range(parents - states + 1))
    scope = b",".join(b"v%d" % v for v in range(parents - states + 1))
    names = b",".join(b"s%d" % i for i in range(states))
    child = b"variable c {type discrete[%d]{%s};}" % (states, names)
    return above + child + b"probability(c|%s) {default 1 %s;}" % (scope, b"0 " * (states - 1))


#: Texts of many things, and what becomes of them as they are and as gzip.
MADE = {
    "variables": ("uai", b"MARKOV %d %s 0" % (200_000, b"1 " * 200_000), True),
    "more variables": ("uai", b"MARKOV %d %s 0" % (3_000_000, b"1 " * 3_000_000), False),
    "factors": ("uai", b"MARKOV 1 2 %d\n%s" % (10**5, b"0 " * 10**5 + b"1 1 " * 10**5), True),
    "more factors": ("uai", b"MARKOV 1 2 %d\n%s" % (10**6, b"0 " * 10**6 + b"1 1 " * 10**6), False),
    "one table": ("uai", b"MARKOV 1 500000 1 1 0 500000 " + b"1 " * 500_000, True),
    "far more": ("uai", b"MARKOV 1 9000000 1 1 0 9000000 " + b"1 " * 9_000_000, False),
    "constants": ("fg", b"200000 " + b"0 0 " * 200_000, False),
    "fewer constants": ("fg", b"50000 " + b"0 0 " * 50_000, True),
    "evidence": ("evidence", observed(100_000), True),
    "same evidence": ("evidence", b"2000000 " + b"0 1 " * 2_000_000, False),
    "marginals": ("result", b"MAR 100000 " + b"1 1 " * 100_000, True),
    "more marginals": ("result", b"MAR 1500000 " + b"1 1 " * 1_500_000, False),
    "networks": ("bif", alone(30_000), True),
    "more networks": ("bif", alone(200_000), False),
    "states": ("bif", one_variable(200_000), True),
    "more states": ("bif", one_variable(700_000), False),
    "default rows": ("bif", by_default(22, 2), True),
    "default rows of one state": ("bif", by_default(22, 1), True),
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads its memory where Linux tells it")
@pytest.mark.parametrize("what", MADE)
def test_gzip_data_take_no_more_than_their_size_allows(what: str, tmp_path: Path) -> None:
    """Kilobytes took gigabytes, and minutes."""
    kind, text, read = MADE[what]
    path = tmp_path / "file.gz"
    path.write_bytes(gzip.compress(text))
    child = children.run(MEASURED, str(path), kind)
    assert child.returncode == 0, child.stderr
    said, kib = child.stdout.splitlines()
    if read:
        assert said == "read"
    else:
        assert said.startswith(f"{path}: gzip data")
        assert said.endswith("if you trust it, decompress it first")
    assert int(kib) * 1024 < 64 * path.stat().st_size + (64 << 20)


@pytest.mark.skipif(sys.platform != "linux", reason="reads its memory where Linux tells it")
@pytest.mark.parametrize(
    "text",
    [
        by_default(22, 2),
        by_default(24, 2) + b"//" + b" " * (4 << 20),
        by_default(24, 1) + b"//" + b" " * (4 << 20),
        alone(20_000),
        one_variable(100_000),
        one_variable(20_000)
        + b"variable c {type discrete[1]{x};} probability(c|v) {%s}"
        % b"".join(b"(s%d)1;" % i for i in range(20_000)),
    ],
    ids=["default", "large default", "one state", "variables", "states", "rows"],
)
def test_networks_take_no_more_memory_than_their_text_allows(text: bytes, tmp_path: Path) -> None:
    """A kilobyte took 300 MiB, and one more byte of a longer text 228."""
    path = tmp_path / "model.bif"
    path.write_bytes(text)
    child = children.run(MEASURED, str(path), "bif")
    assert child.returncode == 0, child.stderr
    said, kib = child.stdout.splitlines()
    assert said == "read"
    assert int(kib) * 1024 < 64 * len(text) + (64 << 20)


@pytest.mark.parametrize("ratio", [5, 20])
def test_gzip_data_as_they_are_in_practice_are_read(ratio: int) -> None:
    """Numbers whose digits differ enough to shrink as real models do."""
    rng = random.Random(ratio)
    numbers = [f"{rng.random():.15f}" for _ in range(40_000 if ratio == 5 else 250)]
    text = " ".join(rng.choice(numbers) for _ in range(100_000)).encode()
    packed = gzip.compress(b"MARKOV 1 100000 1 1 0 100000 " + text)
    assert len(text) > 1 << 20
    assert vs.read_uai(packed).n_factors == 1


def mostly_zeros(kind: str, rows: int, width: int) -> bytes:
    """Return a model of one large table: a place in each row has what the others leave."""
    rng = random.Random(0)
    table = [["0.000"] * width for _ in range(rows)]
    for row in table:
        row[rng.randrange(width)] = "1.000"
    if kind == "uai":
        numbers = "\n".join(map(" ".join, table))
        return f"MARKOV 2 {rows} {width} 1 2 0 1 {rows * width} {numbers}".encode()
    of = {"a": rows, "b": width}
    variables = (
        f"variable {name} {{ type discrete [{n}] {{ {', '.join(f'x{i}' for i in range(n))} }}; }}"
        for name, n in of.items()
    )
    alone = f"probability (a) {{ table 1 {'0 ' * (rows - 1)}; }} probability (b | a) {{"
    body = (f"(x{i}) {' '.join(row)};" for i, row in enumerate(table))
    return "\n".join([*variables, alone, *body, "}"]).encode()


@pytest.mark.parametrize(
    ("kind", "size", "width"),
    [("bif", 3 << 20, 25), ("bif", 3 << 20, 30), ("uai", 9 << 20, 15), ("uai", 9 << 20, 30)],
)
def test_gzip_data_of_tables_that_are_mostly_zeros_are_read(
    kind: str, size: int, width: int
) -> None:
    """One of pgmpy's example networks shrinks by 27, and was refused."""
    text = mostly_zeros(kind, size // (6 * width), width)
    packed = gzip.compress(text)
    assert 25 < len(text) / len(packed) < 100
    read = {"bif": vs.read_bif, "uai": vs.read_uai}[kind]
    assert max(read(packed).cardinalities) == size // (6 * width)
    with pytest.raises(ModelFormatError, match=r"gzip data.* hold more than .*decompress it first"):
        read(gzip.compress(text + b" " * 200 * len(packed)))


def test_text_is_no_larger_than_its_words_would_have_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed = gzip.compress(mostly_zeros("uai", 3000, 150))
    assert vs.read_uai(packed).n_factors == 1
    monkeypatch.setattr(_text, "_MEMORY_FREE", 1 << 20)
    most = int(((1 << 20) + 64 * len(packed)) / _text._TEXT)
    with pytest.raises(ModelFormatError, match=f"{len(packed)} bytes hold more than {most} bytes"):
        vs.read_uai(packed)


def test_words_are_found_wherever_pieces_of_the_text_end(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    for size in range(1, 30):
        data = bytes(rng.choices(b"ab \n", k=29))[:size]
        for piece in (1, 2, 3, 7, 64):
            monkeypatch.setattr(_text, "_PIECE", piece)
            tokens = _text.Tokens(data)
            assert [tokens.text(i).encode() for i in range(len(tokens))] == data.split()


def test_a_file_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "MAX_BYTES", 10)
    path = tmp_path / "large"
    path.write_bytes(bytes(11))
    # The second has no size, and no end.
    for source in (path, *(Path(name) for name in ("/dev/full",) if os.path.exists(name))):
        with pytest.raises(ModelFormatError, match="11 bytes or more") as info:
            read_file(source)
        assert str(info.value).startswith(f"{source}: file at byte 10: ")
