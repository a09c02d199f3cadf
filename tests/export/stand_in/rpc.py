"""TF Serving's gRPC services, on the generated stubs of `tensorflow-serving-api`."""

from concurrent import futures

import grpc
import tensorflow as tf
from tensorflow_serving.apis import (
    get_model_metadata_pb2,
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tests.export.stand_in.servable import Refusal
from tfconcrete.export.saved_model import signature_names

CODES = {code.value[0]: code for code in grpc.StatusCode}
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def metadata_of(model, version):
    """A `GetModelMetadataResponse` with the signatures."""
    number, servable = model.servable(version)
    answer = get_model_metadata_pb2.GetModelMetadataResponse()
    answer.model_spec.name, answer.model_spec.version.value = model.name, number
    signatures = get_model_metadata_pb2.SignatureDefMap()
    for name in signature_names(servable.meta_graph):
        signatures.signature_def[name].CopyFrom(servable.meta_graph.signature_def[name])
    answer.metadata["signature_def"].Pack(signatures)
    return answer


def _version(request):
    spec = request.model_spec
    return spec.version.value if spec.HasField("version") else None


class _Services(
    prediction_service_pb2_grpc.PredictionServiceServicer,
    model_service_pb2_grpc.ModelServiceServicer,
):
    def __init__(self, models):
        self._models = models

    def _answer(self, context, call):
        try:
            return call()
        except Refusal as error:
            context.abort(CODES.get(error.code, grpc.StatusCode.UNKNOWN), error.text)

    def Predict(self, request, context):
        def call():
            model = self._models[request.model_spec.name]
            inputs = {name: tf.make_ndarray(value) for name, value in request.inputs.items()}
            signature = request.model_spec.signature_name
            number, outputs = model.predict(_version(request), signature, inputs)
            answer = predict_pb2.PredictResponse()
            answer.model_spec.name, answer.model_spec.version.value = model.name, number
            answer.model_spec.signature_name = signature or "serving_default"
            for name, value in outputs.items():
                if not request.output_filter or name in request.output_filter:
                    answer.outputs[name].CopyFrom(tf.make_tensor_proto(value))
            return answer

        return self._answer(context, call)

    def GetModelMetadata(self, request, context):
        return self._answer(
            context, lambda: metadata_of(self._models[request.model_spec.name], _version(request))
        )

    def GetModelStatus(self, request, context):
        return self._answer(
            context, lambda: self._models[request.model_spec.name].status(_version(request))
        )


def serve_grpc(models, port):
    """A started gRPC server on a port of this machine."""
    server = grpc.server(futures.ThreadPoolExecutor(16), options=UNLIMITED)
    services = _Services(models)
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(services, server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(services, server)
    server.add_insecure_port(f"localhost:{port}")
    server.start()
    return server
