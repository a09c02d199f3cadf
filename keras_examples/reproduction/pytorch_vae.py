"""The GST paper's VAE in plain PyTorch, written from the paper: a check from outside.

For an interpreter that has PyTorch and NumPy; nothing of this project is imported.

    python keras_examples/reproduction/pytorch_vae.py mnist.npz --start pytorch --epochs 10

`mnist.npz` holds uint8 `x_train` and `x_test`, `[n, 28, 28]`, as `keras.datasets.mnist` has
them. `--start glorot` draws the initial weights as Keras does, with zero biases: everything
else is the same program.
"""

import argparse
import json
import pathlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional

VARIABLES, CLASSES = 30, 10


def straight_through_gumbel_softmax(logits, temperature):
    """One-hot of the perturbed logits forward, gradient of their tempered softmax."""
    gumbel = -torch.log(torch.empty_like(logits).exponential_())
    soft = torch.softmax((logits + gumbel) / temperature, -1)
    hard = functional.one_hot(soft.argmax(-1), CLASSES).to(soft)
    return hard - soft.detach() + soft


def gapped_straight_through(logits, temperature, gap=1.0):
    """Eq. 15-19: the logits are shifted so that the drawn class leads by the gap."""
    hard = functional.one_hot(torch.distributions.Categorical(logits=logits).sample(), CLASSES)
    hard = hard.to(logits)
    with torch.no_grad():
        drawn = (logits * hard).sum(-1, keepdim=True)
        lift = hard * (logits.max(-1, keepdim=True).values - drawn)
        lower = (1 - hard) * torch.clamp(logits - drawn - lift.sum(-1, keepdim=True) + gap, min=0)
    soft = torch.softmax((logits + lift - lower) / temperature, -1)
    return hard - soft.detach() + soft


ESTIMATORS = {"stgs": straight_through_gumbel_softmax, "gst-1.0": gapped_straight_through}


def networks(start):
    """784-512-256-300 with a ReLU after every layer, and 300-256-512-784."""
    sizes = (784, 512, 256, VARIABLES * CLASSES)

    def chain(sizes):
        pairs = zip(sizes, sizes[1:], strict=False)
        return [layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())]

    encoder, decoder = chain(sizes), chain(sizes[::-1])
    for layer in (*encoder, *decoder):
        if start == "glorot" and isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*encoder), nn.Sequential(*decoder[:-1])


def negative_bound(encoder, decoder, estimator, temperature, x):
    """The mean over images: cross entropy of grey pixels, and the analytic KL to uniform."""
    logits = encoder(x).reshape(-1, VARIABLES, CLASSES)
    sample = estimator(logits, temperature)
    pixels = decoder(sample.flatten(1))
    fit = functional.binary_cross_entropy_with_logits(pixels, x, reduction="sum") / len(x)
    log_q = torch.log_softmax(logits, -1)
    kl = (log_q.exp() * (log_q + np.log(CLASSES))).sum((1, 2)).mean()
    return fit + kl


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("images", type=pathlib.Path)
    options.add_argument("--estimator", choices=ESTIMATORS, default="stgs")
    options.add_argument("--temperature", type=float, default=0.5)
    options.add_argument("--start", choices=("pytorch", "glorot"), default="pytorch")
    options.add_argument("--epochs", type=int, default=40)
    options.add_argument("--seed", type=int, default=0)
    settings = options.parse_args()
    torch.manual_seed(settings.seed)
    with np.load(settings.images) as arrays:
        train, test = (
            torch.from_numpy(arrays[name].reshape(-1, 784).astype(np.float32) / 255)
            for name in ("x_train", "x_test")
        )
    encoder, decoder = networks(settings.start)
    estimator = ESTIMATORS[settings.estimator]
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-3)
    history = []
    for epoch in range(settings.epochs):
        for batch in torch.randperm(len(train)).split(100):
            optimizer.zero_grad()
            loss = negative_bound(encoder, decoder, estimator, settings.temperature, train[batch])
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            losses = [
                negative_bound(encoder, decoder, estimator, settings.temperature, x).item()
                for x in test.split(500)
            ]
        history.append(round(float(np.mean(losses)), 3))
        print(f"epoch {epoch + 1}: {history[-1]}", flush=True)
    print(json.dumps({**vars(settings), "images": str(settings.images), "val_loss": history}))


if __name__ == "__main__":
    main()
