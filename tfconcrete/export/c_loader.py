"""Runs a SavedModel through TensorFlow's C API, as TF Serving's C++ loader does.

This file imports neither TensorFlow nor Keras nor the rest of this package, and works on
its own: `python c_loader.py MODEL REQUESTS.npz ANSWERS.npz`. It opens the shared
libraries of the installed TensorFlow wheel with `ctypes`, loads the graph tagged `serve`
with the C++ loader, and runs its signatures. XLA is switched off first, as TF Serving
does when it starts, so a graph that needs it fails here as it would there.

In REQUESTS.npz an array is named `<request>/<signature>/<input>`, in ANSWERS.npz
`<request>/<output>`.
"""

import collections
import ctypes
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

# TF_DataType: the numbers of `tensorflow/c/tf_datatype.h`.
_DTYPES = {
    1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 5: np.int16, 6: np.int8,
    9: np.int64, 10: np.bool_, 17: np.uint16, 19: np.float16, 22: np.uint32, 23: np.uint64,
}  # fmt: skip

Signature = collections.namedtuple("Signature", ["inputs", "outputs"])
TensorInfo = collections.namedtuple("TensorInfo", ["tensor", "dtype"])


class _Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t),
                ("deallocator", ctypes.c_void_p)]  # fmt: skip


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
        ("TF_LoadSessionFromSavedModel", pointer, pointer, pointer, ctypes.c_char_p,
         ctypes.POINTER(ctypes.c_char_p), number, pointer, ctypes.POINTER(_Buffer), pointer),
        ("TF_GraphOperationByName", pointer, pointer, ctypes.c_char_p),
        ("TF_AllocateTensor", pointer, number, ctypes.POINTER(ctypes.c_int64), number,
         ctypes.c_size_t),
        ("TF_TensorData", pointer, pointer),
        ("TF_TensorByteSize", ctypes.c_size_t, pointer),
        ("TF_TensorType", number, pointer),
        ("TF_NumDims", number, pointer),
        ("TF_Dim", ctypes.c_int64, pointer, number),
        ("TF_DeleteTensor", None, pointer),
        ("TF_SessionRun", None, pointer, pointer, ctypes.POINTER(_Output),
         ctypes.POINTER(pointer), number, ctypes.POINTER(_Output), ctypes.POINTER(pointer),
         number, pointer, number, pointer, pointer),
        ("TF_CloseSession", None, pointer, pointer),
        ("TF_DeleteSession", None, pointer, pointer),
    ):  # fmt: skip
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def _disable_xla(library):
    """`tensorflow::DisableXlaCompilation()`, which TF Serving calls when it starts."""
    function = library._ZN10tensorflow21DisableXlaCompilationEv
    function.restype, function.argtypes = None, ()
    function()


class CSavedModel:
    """A SavedModel in a session of the C API.

    Args:
        path: Folder of the SavedModel.
        xla: Whether graphs may be compiled. Not in a server, unless it was started so; the
            switch is one for the whole process, and cannot be turned back.

    Attributes:
        signatures: `Signature`s by name: their inputs and outputs by name, each a tensor
            of the graph and its dtype.
    """

    def __init__(self, path, xla=False):
        self._library = tf = _load_library()
        if not xla:
            _disable_xla(tf)
        self._status, self._graph = tf.TF_NewStatus(), tf.TF_NewGraph()
        self._session = None
        options, meta_graph = tf.TF_NewSessionOptions(), tf.TF_NewBuffer()
        tags = (ctypes.c_char_p * 1)(b"serve")
        try:
            self._session = tf.TF_LoadSessionFromSavedModel(
                options, None, os.fsencode(path), tags, 1, self._graph, meta_graph, self._status
            )
            self._check()
            content = meta_graph.contents
            self.signatures = read_signatures(ctypes.string_at(content.data, content.length))
        finally:
            tf.TF_DeleteBuffer(meta_graph)
            tf.TF_DeleteSessionOptions(options)

    def run(self, signature, inputs):
        """Runs a signature.

        Args:
            signature: Its name.
            inputs: dict of arrays by input name.

        Returns:
            dict of arrays by output name.
        """
        if signature not in self.signatures:
            raise KeyError(f"No signature {signature!r}; there are {sorted(self.signatures)}.")
        known = self.signatures[signature]
        if set(inputs) != set(known.inputs):
            raise KeyError(f"Expected the inputs {sorted(known.inputs)}, not {sorted(inputs)}.")
        tf, names = self._library, list(known.outputs)
        run, values, results = self._prepare(known, inputs)
        try:
            run()
            return {
                name: self._to_array(tensor)
                for name, tensor in zip(names, results, strict=True)
            }
        finally:
            for tensor in (*values, *results):
                if tensor:
                    tf.TF_DeleteTensor(tensor)

    def _prepare(self, signature, inputs):
        """A function that runs the session, with the tensors it reads and those it writes."""
        tf, names = self._library, list(signature.outputs)
        feeds = [self._output(signature.inputs[key].tensor) for key in inputs]
        fetches = [self._output(info.tensor) for info in signature.outputs.values()]
        feeds = (_Output * len(feeds))(*feeds)
        fetches = (_Output * len(fetches))(*fetches)
        values = (ctypes.c_void_p * len(inputs))(
            *(self._to_tensor(x, signature.inputs[key].dtype) for key, x in inputs.items())
        )
        results = (ctypes.c_void_p * len(names))()

        def run():
            tf.TF_SessionRun(
                self._session, None, feeds, values, len(values), fetches, results, len(results),
                None, 0, None, self._status,
            )  # fmt: skip
            self._check()

        return run, values, results

    def repeater(self, signature, inputs):
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

    def close(self):
        """Closes the session and frees what it holds."""
        tf = self._library
        if self._session:
            tf.TF_CloseSession(self._session, self._status)
            tf.TF_DeleteSession(self._session, self._status)
            self._session = None
            tf.TF_DeleteGraph(self._graph)
            tf.TF_DeleteStatus(self._status)

    def _check(self):
        code = self._library.TF_GetCode(self._status)
        if code:
            message = self._library.TF_Message(self._status).decode(errors="replace")
            raise RuntimeError(f"TensorFlow's C API failed with code {code}: {message}")

    def _output(self, tensor):
        name, _, index = tensor.partition(":")
        operation = self._library.TF_GraphOperationByName(self._graph, name.encode())
        if not operation:
            raise RuntimeError(f"The graph has no operation {name!r}.")
        return _Output(operation, int(index or 0))

    def _to_tensor(self, value, dtype):
        if dtype not in _DTYPES:
            raise TypeError(f"The C loader cannot feed tensors of TF_DataType {dtype}.")
        array = np.ascontiguousarray(value, dtype=_DTYPES[dtype])
        shape = (ctypes.c_int64 * array.ndim)(*np.shape(value))
        tensor = self._library.TF_AllocateTensor(dtype, shape, array.ndim, array.nbytes)
        ctypes.memmove(self._library.TF_TensorData(tensor), array.ctypes.data, array.nbytes)
        return tensor

    def _to_array(self, tensor):
        tf = self._library
        dtype = tf.TF_TensorType(tensor)
        if dtype not in _DTYPES:
            raise TypeError(f"The C loader cannot read tensors of TF_DataType {dtype}.")
        shape = [tf.TF_Dim(tensor, axis) for axis in range(tf.TF_NumDims(tensor))]
        content = ctypes.string_at(tf.TF_TensorData(tensor), tf.TF_TensorByteSize(tensor))
        return np.frombuffer(content, _DTYPES[dtype]).reshape(shape).copy()


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


def read_signatures(meta_graph):
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


def run_separately(path, requests):
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
    arrays = {
        f"{name}/{signature}/{key}": value
        for name, (signature, inputs) in requests.items()
        for key, value in inputs.items()
    }
    with tempfile.TemporaryDirectory() as folder:
        files = [os.path.join(folder, name) for name in ("requests.npz", "answers.npz")]
        np.savez(files[0], **arrays)
        command = [sys.executable, os.path.abspath(__file__), os.fspath(path), *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"The C loader failed:\n{done.stderr}")
        answers = {}
        with np.load(files[1]) as loaded:
            for key in loaded.files:
                name, output = key.split("/", 1)
                answers.setdefault(name, {})[output] = loaded[key]
    return answers


def main(path, requests, answers):
    model = CSavedModel(path)
    calls = {}
    with np.load(requests) as arrays:
        for key in arrays.files:
            request, signature, name = key.split("/", 2)
            calls.setdefault((request, signature), {})[name] = arrays[key]
    results = {
        f"{request}/{name}": value
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
    main(*sys.argv[1:])
