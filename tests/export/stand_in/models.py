"""The models of a server: which versions there are, and which answer."""

import pathlib
import threading

from google.protobuf import text_format
from tensorflow_serving.apis import get_model_status_pb2
from tensorflow_serving.config import model_server_config_pb2

from tests.export.stand_in.servable import NOT_FOUND, Refusal, Servable
from tfconcrete.export.c_loader import CApiError
from tfconcrete.export.versions import version_folder, versions

STATES = get_model_status_pb2.ModelVersionStatus.State


class Model:
    """A folder of versions, of which the latest are loaded before older ones are let go.

    Args:
        config: A `ModelConfig`.
        batching: The numbers of `batching_parameters.txt`, or None.
    """

    def __init__(self, config, batching):
        self.name = config.name
        self._folder = pathlib.Path(config.base_path)
        self._keep = config.model_version_policy.latest.num_versions or 1
        self._batching = batching
        self._loaded, self._lock = {}, threading.Lock()
        self.states = {}

    def poll(self):
        """Loads what is new in the folder, then unloads what is too old."""
        wanted = versions(self._folder)[-self._keep :]
        for number in wanted:
            if number not in self.states:
                self.states[number] = STATES.LOADING, ""
                try:
                    servable = Servable(version_folder(self._folder, number), self._batching)
                except (Refusal, CApiError, OSError) as error:
                    self.states[number] = STATES.END, str(error)
                    continue
                with self._lock:
                    self._loaded[number] = servable
                self.states[number] = STATES.AVAILABLE, ""
        if not any(number in self._loaded for number in wanted):
            return
        for number in [number for number in self._loaded if number not in wanted]:
            self.states[number] = STATES.UNLOADING, ""
            with self._lock:
                servable = self._loaded.pop(number)
            servable.close()
            self.states[number] = STATES.END, ""

    def predict(self, version, signature, inputs):
        """The version that answers, and its answer."""
        number, servable = self.servable(version)
        return number, servable.predict(signature, inputs)

    def servable(self, version=None):
        with self._lock:
            number = max(self._loaded, default=None) if version is None else version
            if number not in self._loaded:
                which = f"Specific({self.name}, {version})" if version else f"Latest({self.name})"
                raise Refusal(NOT_FOUND, f"Servable not found for request: {which}")
            return number, self._loaded[number]

    def status(self, version=None):
        """A `GetModelStatusResponse`."""
        if version is not None and version not in self.states:
            raise Refusal(NOT_FOUND, f"Could not find version {version} of model {self.name}")
        answer = get_model_status_pb2.GetModelStatusResponse()
        for number in sorted(self.states, reverse=True) if version is None else [version]:
            state, text = self.states[number]
            entry = answer.model_version_status.add(version=number, state=state)
            entry.status.error_message = text
        return answer


class Models:
    """Every model in a `models.config`, watched by a thread.

    Args:
        path: Path of the file.
        batching: The numbers of `batching_parameters.txt`, or None.
        seconds: How long to wait between two looks at the folders.
    """

    def __init__(self, path, batching, seconds):
        text = pathlib.Path(path).read_text(encoding="utf-8")
        parsed = text_format.Parse(text, model_server_config_pb2.ModelServerConfig())
        self._models = {
            config.name: Model(config, batching) for config in parsed.model_config_list.config
        }
        self._seconds, self._stop = seconds, threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        while not self._stop.is_set():
            for model in self._models.values():
                model.poll()
            self._stop.wait(self._seconds)

    def __getitem__(self, name):
        if name not in self._models:
            raise Refusal(NOT_FOUND, f"Servable not found for request: Latest({name})")
        return self._models[name]
