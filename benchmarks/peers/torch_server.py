"""PyTorch's side of the comparisons; `process.py` starts it."""

import torch
import torch.nn.functional as F
from serve import serve

torch.manual_seed(0)


def _inputs(shape):
    return torch.randn(*shape), torch.randn(*shape)


def sample(shape, hard=False, compiled=True):
    """F.gumbel_softmax, forward and backward."""
    logits, weight = _inputs(shape)

    def loss(x):
        return (weight * F.gumbel_softmax(x, tau=0.5, hard=hard)).sum()

    run = torch.compile(loss) if compiled else loss

    def step():
        x = logits.detach().requires_grad_()
        run(x).backward()
        return x.grad

    return step


def _gapped(logits, temperature=0.5, gap=1.0):
    """GST, Algorithm 1 of the paper, transcribed."""
    draw = torch.distributions.OneHotCategorical(logits=logits).sample()
    with torch.no_grad():
        top = logits.amax(-1, keepdim=True)
        m1 = (top - logits) * draw
        m2 = (logits + gap - top).clamp(min=0.0) * (1.0 - draw)
    soft = F.softmax((logits + m1 - m2) / temperature, -1)
    return draw - soft.detach() + soft


def _straight_through(logits):
    return F.gumbel_softmax(logits, tau=0.5, hard=True)


def vae_step(batch, estimator="stgs", compiled=False):
    """A training step of the GST paper's VAE."""
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    encoder = torch.nn.Sequential(
        linear(784, 512), relu(), linear(512, 256), relu(), linear(256, 300), relu()
    )
    decoder = torch.nn.Sequential(
        linear(300, 256), relu(), linear(256, 512), relu(), linear(512, 784)
    )
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    x = torch.rand(batch, 784)
    draw = {"stgs": _straight_through, "gst": _gapped}[estimator]

    def loss(x):
        logits = encoder(x).view(-1, 30, 10)
        z = draw(logits).view(-1, 300)
        fit = F.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum")
        log_q = F.log_softmax(logits, -1)
        kl = (log_q.exp() * (log_q + torch.log(torch.tensor(10.0)))).sum()
        return (fit + kl) / x.shape[0]

    run = torch.compile(loss) if compiled else loss

    def step():
        optimizer.zero_grad()
        run(x).backward()
        optimizer.step()

    return step


serve({"sample": sample, "vae_step": vae_step})
