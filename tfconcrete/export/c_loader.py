"""Runs a SavedModel through TensorFlow's C API, as TF Serving's C++ loader does.

This file imports neither TensorFlow nor Keras nor the rest of this package, and works on
its own: `python c_loader.py MODEL REQUESTS.npz ANSWERS.npz`. It opens the shared
libraries of the installed TensorFlow wheel with `ctypes`, loads the graph tagged `serve`
with the C++ loader, and runs its signatures. XLA is switched off first, as TF Serving
does when it starts, so a graph that needs it fails here as it would there.

In REQUESTS.npz an array is named `<request>/<signature>/<input>`, in ANSWERS.npz
`<request>/<output>`. Strings are there as NumPy bytes with a full stop at the end of each,
because NumPy drops trailing NULs (`pack_strings`, `unpack_strings`).
"""

import collections
import contextlib
import ctypes
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

# TF_DataType: the numbers of `tensorflow/c/tf_datatype.h`.
_DTYPES = {
    1: np.float32,
    2: np.float64,
    3: np.int32,
    4: np.uint8,
    5: np.int16,
    6: np.int8,
    9: np.int64,
    10: np.bool_,
    17: np.uint16,
    19: np.float16,
    22: np.uint32,
    23: np.uint64,
}
_STRING = 7
_STRING_SIZE = 24  # sizeof(TF_TString)
_FAILED = "c_loader.py failed: "  # what follows is the error, what comes before is logging

Signature = collections.namedtuple("Signature", ["inputs", "outputs"])
TensorInfo = collections.namedtuple("TensorInfo", ["tensor", "dtype"])


class _Buffer(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_size_t),
        ("deallocator", ctypes.c_void_p),
    ]


class _Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]


def _load_library():
    spec = importlib.util.find_spec("tensorflow")  # finds the package, runs none of it
    if spec is None:
        raise ImportError("The C loader needs the shared libraries of the tensorflow wheel.")
    folder = pathlib.Path(spec.origin).parent
    # Local mode, the default: in global mode the wheel's symbols break `ssl`.
    library = ctypes.CDLL(str(folder / "libtensorflow_cc.so.2"))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    for name, result, *arguments in (
        ("TF_NewStatus", pointer),
        ("TF_DeleteStatus", None, pointer),
        ("TF_GetCode", number, pointer),
        ("TF_Message", ctypes.c_char_p, pointer),
        ("TF_NewGraph", pointer),
        ("TF_DeleteGraph", None, pointer),
        ("TF_NewSessionOptions", pointer),
        ("TF_DeleteSessionOptions", None, pointer),
        ("TF_NewBuffer", ctypes.POINTER(_Buffer)),
        ("TF_DeleteBuffer", None, ctypes.POINTER(_Buffer)),
        (
            "TF_LoadSessionFromSavedModel",
            pointer,
            pointer,
            pointer,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_char_p),
            number,
            pointer,
            ctypes.POINTER(_Buffer),
            pointer,
        ),
        ("TF_GraphOperationByName", pointer, pointer, ctypes.c_char_p),
        (
            "TF_AllocateTensor",
            pointer,
            number,
            ctypes.POINTER(ctypes.c_int64),
            number,
            ctypes.c_size_t,
        ),
        ("TF_TensorData", pointer, pointer),
        ("TF_TensorByteSize", ctypes.c_size_t, pointer),
        ("TF_TensorType", number, pointer),
        ("TF_NumDims", number, pointer),
        ("TF_Dim", ctypes.c_int64, pointer, number),
        ("TF_DeleteTensor", None, pointer),
        ("TF_StringInit", None, pointer),
        ("TF_StringCopy", None, pointer, ctypes.c_char_p, ctypes.c_size_t),
        ("TF_StringGetDataPointer", pointer, pointer),
        ("TF_StringGetSize", ctypes.c_size_t, pointer),
        ("TF_StringDealloc", None, pointer),
        (
            "TF_SessionRun",
            None,
            pointer,
            pointer,
            ctypes.POINTER(_Output),
            ctypes.POINTER(pointer),
            number,
            ctypes.POINTER(_Output),
            ctypes.POINTER(pointer),
            number,
            pointer,
            number,
            pointer,
            pointer,
        ),
        ("TF_CloseSession", None, pointer, pointer),
        ("TF_DeleteSession", None, pointer, pointer),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _disable_xla(library):
    """`tensorflow::DisableXlaCompilation()`, which TF Serving calls when it starts."""
    function = library._ZN10tensorflow21DisableXlaCompilationEv
    function.restype, function.argtypes = None, ()
    function()


class CApiError(RuntimeError):
    """What TensorFlow's C API refused.

    Attributes:
        code: Its number (3 is an invalid argument, 5 something that is not found, ...).
        message: Its own words.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"TensorFlow's C API failed with code {code}: {message}")
        self.code, self.message = code, message


class CSavedModel:
    """A SavedModel in a session of the C API, which several threads may run at once.

    Args:
        path: Folder of the SavedModel.
        xla: Whether graphs may be compiled. Not in a server, unless it was started so; the
            switch is one for the whole process, and cannot be turned back.

    Attributes:
        signatures: `Signature`s by name: their inputs and outputs by name, each a tensor
            of the graph and its dtype.
    """

    def __init__(self, path: str | os.PathLike, xla: bool = False) -> None:
        self._library = tf = _load_library()
        if not xla:
            _disable_xla(tf)
        self._graph, self._session = tf.TF_NewGraph(), None
        options, meta_graph = tf.TF_NewSessionOptions(), tf.TF_NewBuffer()
        tags = (ctypes.c_char_p * 1)(b"serve")
        try:
            with self._checked() as status:
                self._session = tf.TF_LoadSessionFromSavedModel(
                    options, None, os.fsencode(path), tags, 1, self._graph, meta_graph, status
                )
            content = meta_graph.contents
            self.signatures = read_signatures(ctypes.string_at(content.data, content.length))
        finally:
            tf.TF_DeleteBuffer(meta_graph)
            tf.TF_DeleteSessionOptions(options)

    def run(self, signature: str, inputs: Any) -> dict[str, np.ndarray]:
        """Runs a signature.

        Args:
            signature: Its name.
            inputs: dict of arrays by input name; strings as `str`, `bytes` or arrays of
                them.

        Returns:
            dict of arrays by output name; strings as arrays of `bytes` objects.
        """
        if signature not in self.signatures:
            raise KeyError(f"No signature {signature!r}; there are {sorted(self.signatures)}.")
        known = self.signatures[signature]
        if set(inputs) != set(known.inputs):
            raise KeyError(f"Expected the inputs {sorted(known.inputs)}, not {sorted(inputs)}.")
        run, values, results = self._prepare(known, inputs)
        try:
            run()
            return {
                name: self._to_array(tensor)
                for name, tensor in zip(known.outputs, results, strict=True)
            }
        finally:
            for tensor in values:
                self._delete_input(tensor)
            for tensor in results:
                if tensor:
                    self._library.TF_DeleteTensor(tensor)

    def _prepare(self, signature, inputs):
        """A function that runs the session, with the tensors it reads and those it writes."""
        tf, names = self._library, list(signature.outputs)
        feeds = [self._output(signature.inputs[key].tensor) for key in inputs]
        fetches = [self._output(info.tensor) for info in signature.outputs.values()]
        feeds = (_Output * len(feeds))(*feeds)
        fetches = (_Output * len(fetches))(*fetches)
        # All are checked before the first is allocated.
        arrays = [_feedable(x, signature.inputs[key].dtype, key) for key, x in inputs.items()]
        dtypes = [signature.inputs[key].dtype for key in inputs]
        values = (ctypes.c_void_p * len(inputs))(*map(self._to_tensor, arrays, dtypes))
        results = (ctypes.c_void_p * len(names))()

        def run():
            with self._checked() as status:
                tf.TF_SessionRun(
                    self._session,
                    None,
                    feeds,
                    values,
                    len(values),
                    fetches,
                    results,
                    len(results),
                    None,
                    0,
                    None,
                    status,
                )

        return run, values, results

    def repeater(self, signature: str, inputs: Any) -> Any:
        """A function that runs a signature on the same inputs and drops the answer.

        What a server adds to a request, and what Python adds here, is left out: this is
        for measuring the graph itself.
        """
        run, _, results = self._prepare(self.signatures[signature], inputs)

        def repeat():
            run()
            for tensor in results:
                self._library.TF_DeleteTensor(tensor)

        return repeat

    def close(self) -> None:
        """Closes the session and frees what it holds."""
        tf = self._library
        if self._session:
            with self._checked() as status:
                tf.TF_CloseSession(self._session, status)
                tf.TF_DeleteSession(self._session, status)
            self._session = None
            tf.TF_DeleteGraph(self._graph)

    @contextlib.contextmanager
    def _checked(self):
        """A status for a call of the C API; raises what it says afterwards."""
        status = self._library.TF_NewStatus()
        try:
            yield status
            code = self._library.TF_GetCode(status)
            if code:
                message = self._library.TF_Message(status).decode(errors="replace")
                raise CApiError(code, message)
        finally:
            self._library.TF_DeleteStatus(status)

    def _output(self, tensor):
        name, _, index = tensor.partition(":")
        operation = self._library.TF_GraphOperationByName(self._graph, name.encode())
        if not operation:
            raise RuntimeError(f"The graph has no operation {name!r}.")
        return _Output(operation, int(index or 0))

    def _to_tensor(self, array, dtype):
        tf = self._library
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        size = array.size * _STRING_SIZE if dtype == _STRING else array.nbytes
        tensor = tf.TF_AllocateTensor(dtype, shape, array.ndim, size)
        data = tf.TF_TensorData(tensor)
        if dtype == _STRING:
            for place, value in zip(_places(data, array.size), array.flat, strict=True):
                tf.TF_StringInit(place)
                tf.TF_StringCopy(place, value, len(value))
        else:
            ctypes.memmove(data, array.ctypes.data, size)
        return tensor

    def _delete_input(self, tensor):
        tf = self._library
        if tf.TF_TensorType(tensor) == _STRING:
            count = tf.TF_TensorByteSize(tensor) // _STRING_SIZE
            for place in _places(tf.TF_TensorData(tensor), count):
                tf.TF_StringDealloc(place)
        tf.TF_DeleteTensor(tensor)

    def _to_array(self, tensor):
        tf = self._library
        dtype = tf.TF_TensorType(tensor)
        shape = [tf.TF_Dim(tensor, axis) for axis in range(tf.TF_NumDims(tensor))]
        size, data = tf.TF_TensorByteSize(tensor), tf.TF_TensorData(tensor)
        if dtype == _STRING:
            return _objects(
                [
                    ctypes.string_at(tf.TF_StringGetDataPointer(place), tf.TF_StringGetSize(place))
                    for place in _places(data, size // _STRING_SIZE)
                ],
                shape,
            )
        if dtype not in _DTYPES:
            raise TypeError(f"The C loader cannot read tensors of TF_DataType {dtype}.")
        content = ctypes.string_at(data, size)
        return np.frombuffer(content, _DTYPES[dtype]).reshape(shape).copy()


def _places(data, count):
    """The addresses of the strings of a tensor."""
    return [data + index * _STRING_SIZE for index in range(count)]


def _objects(values, shape):
    """An array of objects, of that shape whatever the values are."""
    array = np.empty(len(values), object)
    array[:] = values
    return array.reshape(shape)


def _as_array(value):
    """An array of the values, strings as objects: NumPy's own drop trailing NULs."""
    array = np.asarray(value, order="C")
    if array.dtype.kind in "SU" and not isinstance(value, np.ndarray):
        return np.array(value, object)
    return array


def _feedable(value, dtype, name):
    """An array of the dtype that an input has, with the same values."""
    array = _as_array(value)
    if dtype == _STRING:
        flat = [text.encode() if isinstance(text, str) else text for text in array.flat]
        if not all(isinstance(text, bytes) for text in flat):
            raise TypeError(f"The input {name!r} takes strings, not {array.dtype}.")
        return _objects(flat, array.shape)
    if dtype not in _DTYPES:
        raise TypeError(f"The C loader cannot feed tensors of TF_DataType {dtype}.")
    target = np.dtype(_DTYPES[dtype])
    if not np.can_cast(array.dtype, target, "same_kind") and array.dtype.kind not in "iu":
        raise TypeError(f"The input {name!r} takes {target}, not {array.dtype}.")
    cast = array.astype(target)
    if array.dtype.kind in "iu" and not np.array_equal(cast, array):
        raise TypeError(f"The input {name!r} takes {target}, which cannot hold {array}.")
    return cast


def pack_strings(array: np.ndarray) -> np.ndarray:
    """Strings as NumPy bytes that a file keeps whole; other arrays as they are."""
    array = _as_array(array)
    if array.dtype.kind not in "OSU":
        return array
    flat = [text.encode() if isinstance(text, str) else bytes(text) for text in array.flat]
    longest = max(map(len, flat), default=0) + 1
    return np.array([text + b"." for text in flat], f"S{longest}").reshape(array.shape)


def unpack_strings(array: np.ndarray) -> np.ndarray:
    """What `pack_strings` packed, as an array of `bytes` objects."""
    if array.dtype.kind != "S":
        return array
    return _objects([text[:-1] for text in array.flat], array.shape)


def _fields(message):
    """Pairs of field number and value of a serialised protobuf message."""
    position = 0

    def varint():
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while position < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value = message[position : position + size]
            position += size
        yield key >> 3, value


def _entries(message, field):
    """A map field of a message, as pairs of name and serialised value."""
    for number, value in _fields(message):
        if number == field:
            entry = dict(_fields(value))
            yield entry[1].decode(), entry.get(2, b"")


def _tensor_info(message):
    fields = dict(_fields(message))
    return TensorInfo(fields.get(1, b"").decode(), fields.get(2, 0))


def read_signatures(meta_graph: Any) -> Any:
    """The signatures in a serialised MetaGraphDef, by name."""
    # MetaGraphDef.signature_def = 5; SignatureDef.inputs = 1, .outputs = 2;
    # TensorInfo.name = 1, .dtype = 2.
    return {
        name: Signature(
            {key: _tensor_info(info) for key, info in _entries(signature, 1)},
            {key: _tensor_info(info) for key, info in _entries(signature, 2)},
        )
        for name, signature in _entries(meta_graph, 5)
        if not name.startswith("__")
    }


def run_separately(path: str | os.PathLike, requests: dict) -> dict[str, np.ndarray]:
    """Runs requests in a new process, which imports no TensorFlow, Keras or tfconcrete.

    Args:
        path: Folder of the SavedModel.
        requests: dict from a name to `(signature, inputs)`, the inputs arrays by name.

    Returns:
        dict from a name to the arrays of the answer by output name.

    Example:

    >>> layers = [keras.Input([3], name="x"), tfc.ConcreteSample(name="z")]
    >>> path = tfc.export.save_discrete(keras.Sequential(layers), "served/tiny")
    >>> inputs = {"x": np.array([[0, 2, 1]], np.float32)}
    >>> requests = {"first": ("serving_default", inputs)}
    >>> tfc.export.c_loader.run_separately(path, requests)["first"]["z_codes"]
    array([1], dtype=int32)
    """
    arrays: dict[str, Any] = {
        f"{name}/{signature}/{key}": pack_strings(value)
        for name, (signature, inputs) in requests.items()
        for key, value in inputs.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("requests.npz", "answers.npz")]
        np.savez(files[0], **arrays)
        command = [sys.executable, os.path.abspath(__file__), os.fspath(path), *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            message = done.stderr.rpartition(_FAILED)[2].strip()
            raise RuntimeError(f"The C loader failed: {message or f'code {done.returncode}'}")
        answers = {}
        with np.load(files[1]) as loaded:
            for key in loaded.files:
                name, output = key.split("/", 1)
                answers.setdefault(name, {})[output] = unpack_strings(loaded[key])
    return answers


def main(path: str | os.PathLike, requests: str, answers: str) -> None:
    model = CSavedModel(path)
    calls = {}
    with np.load(requests) as arrays:
        for key in arrays.files:
            request, signature, name = key.split("/", 2)
            calls.setdefault((request, signature), {})[name] = unpack_strings(arrays[key])
    results: dict[str, Any] = {
        f"{request}/{name}": pack_strings(value)
        for (request, signature), inputs in calls.items()
        for name, value in model.run(signature, inputs).items()
    }
    model.close()
    loaded = {"tensorflow", "keras", "tfconcrete"} & set(sys.modules)
    if loaded:
        raise RuntimeError(f"These should not have been imported: {sorted(loaded)}")
    np.savez(answers, **results)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: c_loader.py MODEL REQUESTS.npz ANSWERS.npz")
    # Run by path, this file's folder comes first in the import path; nothing here needs it.
    sys.path.pop(0)
    try:
        main(*sys.argv[1:])
    except (KeyError, RuntimeError, TypeError, OSError) as error:
        sys.exit(_FAILED + str(error))
