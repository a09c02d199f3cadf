"""A masked policy for two couriers: straight-through against the score function.

Title: Policy gradients
Reference: Williams (1992), "REINFORCE"; Fan et al. (2022) for the straight-through layer.

Two couriers move on a small map with walls. Each step both choose one of five moves (a
MultiDiscrete action), moves into walls are masked, and each of two depots that is occupied
pays. The policy is a small network and one sampling layer, which is all that a policy
gradient needs: the layer draws, its `log_prob` scores the draw, its `entropy` keeps the
policy from settling too early, and the mask holds in all three.

The map is known here, so positions are one-hot vectors that a move turns into other one-hot
vectors, and the return can also be differentiated through the straight-through samples. The
score function needs none of that: only numbers that say how good a draw was. The best
possible return is known too, by dynamic programming over all pairs of positions.
"""

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

import tfconcrete as tfc
from keras_examples import common

MAP = (
    "A..#..",
    ".#.#..",
    ".#....",
    ".####.",
    "......",
    ".#..#B",
)
MOVES = ((0, 0), (-1, 0), (0, 1), (1, 0), (0, -1))
COURIERS, STEPS, BATCH = 2, 12, 256
CELLS = [(i, j) for i, line in enumerate(MAP) for j, sign in enumerate(line) if sign != "#"]
NUMBER = {cell: number for number, cell in enumerate(CELLS)}
DEPOTS = [NUMBER[i, j] for i, j in CELLS if MAP[i][j] in "AB"]


def transitions():
    """Which cell a move leads to `[moves, cells, cells]`, and which moves are open."""
    leads = np.zeros([len(MOVES), len(CELLS), len(CELLS)], np.float32)
    for move, (down, right) in enumerate(MOVES):
        for number, (i, j) in enumerate(CELLS):
            if (i + down, j + right) in NUMBER:
                leads[move, number, NUMBER[i + down, j + right]] = 1.0
    return leads, leads.any(-1).T


LEADS, OPEN = transitions()


def pay(positions):
    """A half for each occupied depot; positions `[batch, couriers, cells]`, one-hot."""
    away = 1.0 - tf.gather(positions, DEPOTS, axis=-1)
    return tf.reduce_sum(1.0 - tf.reduce_prod(away, axis=1), axis=-1) / len(DEPOTS)


def best_return():
    """The mean over all starts of the best possible return, by dynamic programming."""
    covered = np.zeros([2, len(CELLS)])
    covered[[0, 1], DEPOTS] = 1.0
    wage = sum(1.0 - np.outer(1.0 - depot, 1.0 - depot) for depot in covered) / len(DEPOTS)
    value = np.zeros([len(CELLS)] * 2)
    for _ in range(STEPS):
        after = wage + value
        # The best of all pairs of moves, one courier's after the other's.
        first = np.max(np.where(OPEN.T[..., None], np.einsum("mij,jk->mik", LEADS, after), -1), 0)
        value = np.max(np.where(OPEN.T[:, None], np.einsum("mij,kj->mki", LEADS, first), -1), 0)
    return value.mean()


def make_policy(seed):
    """Both positions and the time to the logits of both couriers' moves."""
    init = [keras.initializers.GlorotUniform(seed=seed + i) for i in range(2)]
    size = COURIERS * len(CELLS) + STEPS
    return keras.Sequential(
        [
            keras.Input([size]),
            keras.layers.Dense(128, "relu", kernel_initializer=init[0]),
            keras.layers.Dense(COURIERS * len(MOVES), kernel_initializer=init[1]),
            keras.layers.Reshape([COURIERS, len(MOVES)]),
        ]
    )


def rollout(network, layer, positions, training):
    """Plays `STEPS` steps; lists of logits, masks, actions and pays."""
    played = []
    for step in range(STEPS):
        time = tf.tile(tf.one_hot([step], STEPS), [tf.shape(positions)[0], 1])
        state = tf.reshape(positions, [-1, COURIERS * len(CELLS)])
        logits = network(tf.concat([state, time], -1))
        is_open = tf.einsum("bnc,cm->bnm", positions, OPEN.astype(np.float32)) > 0.5
        action = layer(logits, class_mask=is_open, training=training)
        positions = tf.einsum("bnc,bnm,mcd->bnd", positions, action, LEADS)
        played.append((logits, is_open, action, pay(positions)))
    return [list(part) for part in zip(*played, strict=True)], positions


def straight_through_loss(network, layer, start):
    """Minus the return, differentiated through samples and moves."""
    (logits, masks, _, pays), _ = rollout(network, layer, start, training=True)
    return -tf.add_n(pays), logits, masks, tf.add_n(pays)


def score_function_loss(network, layer, start):
    """REINFORCE: each draw's log probability times what was paid after it.

    The baseline of a step is the mean over the other games of the batch.
    """
    (logits, masks, actions, pays), _ = rollout(network, layer, start, training=False)
    after = tf.stop_gradient(tf.cumsum(tf.stack(pays), axis=0, reverse=True))
    size = tf.cast(tf.shape(after)[1], after.dtype)
    signal = (after - tf.reduce_mean(after, 1, keepdims=True)) * size / (size - 1.0)
    log_prob = tf.stack(
        [
            tf.reduce_sum(layer.log_prob(tf.stop_gradient(action), scores, class_mask=mask), -1)
            for action, scores, mask in zip(actions, logits, masks, strict=True)
        ]
    )
    return -tf.reduce_sum(signal * log_prob, 0), logits, masks, tf.add_n(pays)


LOSSES = {"straight-through": straight_through_loss, "score function": score_function_loss}


def starts(number, rng):
    """Random cells for both couriers, one-hot."""
    return np.eye(len(CELLS), dtype=np.float32)[rng.integers(len(CELLS), size=[number, COURIERS])]


def train(name, updates, seed, entropy_weight):
    """Trains one policy; returns its network and the returns of all updates."""
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    network = make_policy(seed)
    layer = tfc.GapStraightThrough(temperature=0.7, inference="sample", seed=seed)
    optimizer = keras.optimizers.Adam(3e-3)
    optimizer.build(network.trainable_variables)

    @tf.function(jit_compile=True)
    def step(start, weight):
        with tf.GradientTape() as tape:
            loss, logits, masks, returns = LOSSES[name](network, layer, start)
            entropy = tf.add_n(
                [
                    tf.reduce_sum(layer.entropy(scores, class_mask=mask), -1)
                    for scores, mask in zip(logits, masks, strict=True)
                ]
            )
            loss = tf.reduce_mean(loss - weight * entropy)
        return tape.gradient(loss, network.trainable_variables), tf.reduce_mean(returns)

    print(name)
    bar = keras.utils.Progbar(updates, stateful_metrics=["return"])
    history = []
    for number in range(updates):
        # The bonus ends before the training does.
        weight = entropy_weight * max(0.0, 1.0 - 1.25 * number / updates)
        gradients, mean = step(starts(BATCH, rng), tf.constant(weight))
        optimizer.apply(gradients, network.trainable_variables)
        history.append(float(mean))
        if number % 10 == 9 or number == updates - 1:
            bar.update(number + 1, [("return", history[-1])])
    return network, np.array(history)


def evaluate(network, seed):
    """The mean return of the likeliest moves from 2,000 starts, and whether all were open."""
    positions = starts(2_000, np.random.default_rng(seed + 1))
    likeliest = tfc.GapStraightThrough(inference="argmax")
    (_, masks, actions, pays), _ = rollout(network, likeliest, positions, training=False)
    for mask, action in zip(masks, actions, strict=True):
        assert np.all(action.numpy()[~mask.numpy()] == 0.0), "a courier walked into a wall"
        assert np.all(action.numpy().sum(-1) == 1.0)
    return float(tf.reduce_mean(tf.add_n(pays)))


def draw_figure(histories, best, network, folder):
    """The returns while training, and one game on the map."""
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 4), gridspec_kw={"width_ratios": [3, 2]}
    )
    for name, runs in histories.items():
        window = max(1, runs.shape[1] // 50)
        smooth = np.array([np.convolve(run, np.ones(window) / window, "valid") for run in runs])
        line = left.plot(smooth.mean(0), label=name)[0]
        left.fill_between(
            np.arange(smooth.shape[1]),
            smooth.min(0),
            smooth.max(0),
            alpha=0.2,
            color=line.get_color(),
        )
    left.axhline(best, color="gray", linestyle="--", label="best possible")
    left.set(xlabel="update", ylabel="return of a game", title="while training (sampled moves)")
    left.legend(loc="lower right")

    walls = np.array([[sign == "#" for sign in line] for line in MAP])
    right.imshow(walls, cmap="Greys", vmin=0, vmax=1.4)
    for depot in DEPOTS:
        i, j = CELLS[depot]
        right.text(j, i, MAP[i][j], ha="center", va="center", fontsize=14, fontweight="bold")
    positions = np.eye(len(CELLS), dtype=np.float32)[[[NUMBER[4, 2], NUMBER[4, 3]]]]
    likeliest = tfc.GapStraightThrough(inference="argmax")
    (_, _, actions, _), _ = rollout(network, likeliest, tf.constant(positions), training=False)
    for courier, color in enumerate(("tab:red", "tab:blue")):
        path = [np.array((4, 2 + courier))]
        for action in actions:
            path.append(path[-1] + np.array(MOVES[int(np.argmax(action[0, courier]))]))
        path = np.array(path, float) + 0.12 * (courier - 0.5)
        right.plot(path[:, 1], path[:, 0], color=color, marker="o", markersize=4)
        right.plot(path[0, 1], path[0, 0], color=color, marker="s", markersize=9)
    right.set(xticks=[], yticks=[], title="one game, likeliest moves (squares: starts)")
    figure.tight_layout()
    return common.save_figure(figure, folder, "policy_gradient")


def main(arguments=None):
    options = common.parser(__doc__)
    options.add_argument("--updates", type=int, default=1_500, help="updates of each policy")
    options.add_argument("--seeds", type=int, default=3, help="runs of each estimator")
    options.add_argument(
        "--entropy", type=common.positive, default=0.05, help="weight of the entropy at the start"
    )
    settings = common.parse(options, arguments)
    for name in ("updates", "seeds"):
        if getattr(settings, name) < 1:
            common.fail(f"--{name} must be at least 1, not {getattr(settings, name)}")
    updates = 20 if settings.smoke else settings.updates
    seeds = [settings.seed + i for i in range(1 if settings.smoke else settings.seeds)]
    best = best_return()
    histories, rows = {}, []
    for name in LOSSES:
        runs, scores = [], []
        for seed in seeds:
            network, history = train(name, updates, seed, settings.entropy)
            runs.append(history)
            scores.append(evaluate(network, seed))
        histories[name] = np.array(runs)
        reached = np.argmax(np.mean(runs, 0) > 0.9 * best)
        reached = str(reached) if np.any(np.mean(runs, 0) > 0.9 * best) else "not reached"
        each = ", ".join(f"{score:.3f}" for score in scores)
        rows.append([name, each, f"{np.mean(scores) / best:.1%}", reached])
    table = common.write_table(
        settings.output / "policy_gradient.md",
        f"Two couriers, {updates} updates of {BATCH} games; the best possible return is {best:.3f}",
        ["estimator", "return, likeliest moves, by seed", "of the best", "updates to 90%"],
        rows,
    )
    figure = draw_figure(histories, best, network, settings.output)
    print(f"wrote {table}\nwrote {figure}")


if __name__ == "__main__":
    main()
