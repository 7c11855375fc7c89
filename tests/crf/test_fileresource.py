"""Files of models, as sklearn-crfsuite keeps them."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path

import pytest

from valuesparse.crf._fileresource import FileResource


def test_a_given_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.crfsuite"
    resource = FileResource(path)
    assert (resource.name, resource.auto, resource.read()) == (str(path), False, None)
    path.write_bytes(b"a model")
    resource.ensure_name()
    resource.refresh()
    resource.cleanup()
    assert resource.read() == b"a model"
    again = pickle.loads(pickle.dumps(resource))
    assert (again.name, again.auto) == (str(path), False)
    del resource
    gc.collect()
    assert path.read_bytes() == b"a model"


@pytest.mark.parametrize("protocol", [0, 2, pickle.HIGHEST_PROTOCOL])
def test_a_temporary_file_travels_in_a_pickle(protocol: int) -> None:
    resource = FileResource(suffix=".crfsuite", prefix="mine")
    assert resource.name is None
    assert pickle.loads(pickle.dumps(resource, protocol)).name is None
    resource.refresh()
    assert resource.name is not None
    path = Path(resource.name)
    assert path.name.startswith("mine")
    assert path.name.endswith(".crfsuite")
    path.write_bytes(b"a model")
    data = pickle.dumps(resource, protocol)
    resource.refresh()  # another one, empty
    assert not path.exists()
    assert resource.read() == b""
    again = pickle.loads(data)
    assert again.read() == b"a model"  # and there is no file until it is asked for
    assert pickle.loads(pickle.dumps(again, protocol)).read() == b"a model"
    assert Path(again.name).read_bytes() == b"a model"
    other = Path(again.name)
    again.cleanup()
    assert (again.name, other.exists()) == (None, False)
    again.cleanup()


@pytest.mark.parametrize("keep", [False, True])
def test_a_temporary_file_goes_with_its_owner_unless_kept(keep: bool) -> None:
    resource = FileResource(keep_tempfiles=keep, contents=b"a model")
    assert resource.read() == b"a model"
    path = Path(str(resource.name))
    assert path.read_bytes() == resource.read() == b"a model"
    resource.cleanup()
    assert path.exists() == keep
    resource.ensure_name()
    path = Path(str(resource.name))
    assert path.exists()
    del resource
    gc.collect()
    assert path.exists() == keep
    path.unlink(missing_ok=True)
