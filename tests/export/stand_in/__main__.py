"""`python -m tests.export.stand_in`, with the flags of `tensorflow_model_server`."""

import argparse

from tests.export.batching import parameters
from tests.export.stand_in.models import Models
from tests.export.stand_in.rest import serve_rest
from tests.export.stand_in.rpc import serve_grpc


def main():
    flags = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    flags.add_argument("--rest_api_port", type=int, required=True)
    flags.add_argument("--port", type=int, required=True)
    flags.add_argument("--model_config_file", required=True)
    flags.add_argument("--enable_batching", action="store_true")
    flags.add_argument("--batching_parameters_file")
    flags.add_argument("--monitoring_config_file")
    flags.add_argument("--file_system_poll_wait_seconds", type=float, default=1.0)
    given = flags.parse_args()
    batching = None
    if given.enable_batching:
        batching = parameters({"batching_parameters.txt": given.batching_parameters_file})
    models = Models(given.model_config_file, batching, given.file_system_poll_wait_seconds)
    with serve_rest(models, given.rest_api_port) as rest:
        grpc = serve_grpc(models, given.port)
        try:
            rest.serve_forever()
        finally:
            grpc.stop(None)


if __name__ == "__main__":
    main()
