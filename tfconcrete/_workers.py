"""Which of several processes this is, under `tf.distribute`."""

import tensorflow as tf


def is_multi_worker(strategy):
    """Whether a strategy spans several processes."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_chief(strategy=None):
    """Whether this process writes the files: the only one, or worker 0 of several."""
    strategy = tf.distribute.get_strategy() if strategy is None else strategy
    resolver = getattr(strategy, "cluster_resolver", None)
    if not is_multi_worker(strategy) or resolver is None or not resolver.task_type:
        return True
    return resolver.task_type == "chief" or (
        resolver.task_type == "worker"
        and resolver.task_id == 0
        and "chief" not in resolver.cluster_spec().as_dict()
    )


def place_among_workers(strategy):
    """`(index, number)` of the processes that a strategy spans; the chief is the first."""
    resolver = strategy.cluster_resolver
    if not is_multi_worker(strategy) or resolver is None or not resolver.task_type:
        return 0, 1
    jobs = resolver.cluster_spec().as_dict()
    chiefs, workers = (len(jobs.get(name, ())) for name in ("chief", "worker"))
    first = chiefs if resolver.task_type == "worker" else 0
    return first + resolver.task_id, chiefs + workers
