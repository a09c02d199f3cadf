"""Running compiled functions over more examples than fit in memory."""

import concurrent.futures

import keras
import numpy as np
import tensorflow as tf

from tfconcrete._checks import check_count, invalid_type, invalid_value
from tfconcrete._seeds import as_seed, fold_in, random_words
from tfconcrete._streams import Stream
from tfconcrete._workers import is_multi_worker, place_among_workers
from tfconcrete.models.data import check_data

# Rows (samples times examples) of one round, at most: enough to keep the cores busy, few
# enough to stay near their caches.
ROWS = 1_000
# Rows of one call: what hides the cost of calling. A single example of many samples has more,
# and then a round of its own chunk is enough.
ROWS_PER_CALL = 4_000
# Batches in flight: one fills the gaps that the other's serial parts leave on the cores.
WORKERS = 2


def compiled(function, jit_compile=None):
    """A `tf.function` for any batch size; nothing in it is Python control flow on tensors."""
    return tf.function(function, autograph=False, reduce_retracing=True, jit_compile=jit_compile)


def in_batches(function, x, batch_size):
    """`function` of arrays `[examples, ...]`, some at a time; NumPy arrays out."""
    batch_size = check_count(batch_size, "batch_size")
    x = np.asarray(x)
    if not len(x):
        raise invalid_value("x", "at least one example", x)
    outputs = [function(x[i : i + batch_size]) for i in range(0, len(x), batch_size)]
    return tf.nest.map_structure(lambda *parts: np.concatenate(parts), *outputs)


def row_seeds(rows, seed):
    """int32 seeds `[rows, 2]` from one seed: the first are the same whatever `rows`."""
    return tf.bitcast(random_words([rows, 2], as_seed(seed), Stream.ROW), tf.int32)


def stream_likelihood(function, data, num_samples, chunk, seed, batch_size, verbose, strategy=None):
    """L_m of each example, batch after batch, with a progress bar.

    Args:
        function: compiled `(*batch, seed, num_samples, chunk) -> [batch]`.
        data: tuple of arrays `[examples, ...]`.
        num_samples, chunk, seed, batch_size, verbose: as in `DiscreteVAE.log_likelihood`.
        strategy: the model's strategy; several workers share the examples.

    Returns:
        float32 array `[examples]`.
    """
    num_samples = check_count(num_samples, "num_samples")
    chunk = min(check_count(chunk, "chunk"), num_samples)
    check_data(data, "x")
    if not len(data[0]):
        raise invalid_value("x", "at least one example", data[0])
    arguments = (num_samples, chunk, batch_size, verbose)
    if is_multi_worker(strategy):
        place = place_among_workers(strategy)
        return _over_workers(function, data, as_seed(seed), strategy, place, *arguments)
    return _stream(function, data, as_seed(seed), *arguments)


def _over_workers(function, data, seed, strategy, place, *arguments):
    """`_stream` of each worker's part of the data, gathered on all of them.

    Args:
        place: The worker's index and how many there are.
    """
    (index, workers), examples = place, len(data[0])
    devices = strategy.num_replicas_in_sync // workers
    # Equal parts for all replicas, the last filled up from the start.
    size = -(-examples // strategy.num_replicas_in_sync)
    rows = np.arange(index * devices * size, (index + 1) * devices * size) % examples
    seed = fold_in(seed, index, Stream.REPLICA)
    part = tf.constant(_stream(function, tuple(x[rows] for x in data), seed, *arguments))

    def own():
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return tf.reshape(part, [devices, size])[replica - index * devices]

    return strategy.gather(strategy.run(own), axis=0).numpy()[:examples]


def _stream(function, data, seed, num_samples, chunk, batch_size, verbose):
    examples = len(data[0])
    if batch_size is None:
        batch_size = max(1, min(ROWS // chunk, ROWS_PER_CALL // num_samples))
    batch_size = min(check_count(batch_size, "batch_size"), examples)
    starts = range(0, examples, batch_size)
    progress = keras.utils.Progbar(len(starts), verbose=verbose, unit_name="batch")

    def bound_of(index):
        # The last batch is filled up from the start, so that one shape is compiled.
        rows = np.arange(starts[index], starts[index] + batch_size) % examples
        batch = (x[rows] for x in data)
        bound = function(*batch, fold_in(seed, index, Stream.STEP), num_samples, chunk)
        return bound.numpy()[: examples - starts[index]]

    def results():
        yield bound_of(0)  # alone, since it compiles
        executor = concurrent.futures.ThreadPoolExecutor(WORKERS)
        try:
            yield from executor.map(bound_of, range(1, len(starts)))
        finally:
            executor.shutdown(cancel_futures=True)

    bounds = []
    for bound in results():
        bounds.append(bound)
        progress.update(len(bounds), values=[("log_likelihood", bound.mean())])
    return np.concatenate(bounds)


def as_array(x):
    """An array, from one or from the batches of a dataset."""
    if isinstance(x, tf.data.Dataset):
        batches = [keras.utils.unpack_x_y_sample_weight(batch)[0] for batch in x]
        return np.concatenate([np.asarray(batch) for batch in batches])
    if x is None or isinstance(x, (dict, str, tf.RaggedTensor, tf.SparseTensor)):
        raise invalid_type("x", "one array or a batched dataset", x)
    return np.asarray(x)
