"""Every model of the package, small."""

import keras

import tfconcrete as tfc

layers = tfc.layers

PIXELS, ROWS = 12, 8


def _network(shape_in, shape_out):
    size = 1
    for n in shape_out:
        size *= n
    return keras.Sequential(
        [
            keras.Input(shape_in),
            keras.layers.Flatten(),
            keras.layers.Dense(size),
            keras.layers.Reshape(shape_out),
        ]
    )


def _vae(latent, cls=None, shape=(3, 4), **keywords):
    if isinstance(latent, layers.IGRSample):
        x = keras.Input((PIXELS,))
        smaller = (*shape[:-1], shape[-1] - 1)
        encoder = keras.Model(x, [_network((PIXELS,), smaller)(x) for _ in range(2)])
    else:
        encoder = _network((PIXELS,), shape)
    cls = cls or tfc.models.DiscreteVAE
    return cls(encoder, _network(shape, (PIXELS,)), latent, **keywords)


def _stack():
    shapes = [(PIXELS,), (3, 4), (2, 5)]
    return tfc.models.DiscreteVAE(
        [_network(*shapes[i : i + 2]) for i in range(2)],
        [_network(*shapes[i : i + 2][::-1]) for i in range(2)],
        [layers.ConcreteSample(seed=i) for i in range(2)],
        num_samples=2,
    )


def _joint():
    x, z, c = keras.Input((PIXELS,)), keras.Input((3, 4)), keras.Input((5,))
    logits = _network((PIXELS,), (3, 4))(x)
    encoder = keras.Model(x, [logits, *(keras.layers.Dense(5)(x) for _ in range(2))])
    flat = keras.layers.Concatenate()([keras.layers.Flatten()(z), c])
    decoder = keras.Model([z, c], keras.layers.Dense(PIXELS)(flat))
    return tfc.models.JointVAE(encoder, decoder, layers.ConcreteSample(seed=0), seed=1)


def _structured(kind=tfc.models.StructuredPredictor, **arguments):
    return kind(
        _network((PIXELS,), (3, 4)),
        _network((3, 4), (PIXELS,)),
        layers.GapStraightThrough(seed=0),
        num_samples=3,
        **arguments,
    )


def _score(estimator, latent=None, shape=(3, 4)):
    latent = latent or layers.ConcreteSample(seed=0)
    return _vae(latent, tfc.models.ScoreFunctionVAE, shape, estimator=estimator)


def _binary():
    return layers.BinConcreteSample(levels=(-1, 1), seed=0)


class Functional(tfc.models.Replicated, keras.Model):
    """A functional model as it trains on several replicas."""


def _functional():
    x = keras.Input((PIXELS,))
    z = layers.GapStraightThrough(seed=0)(_network((PIXELS,), (3, 4))(x))
    return Functional(x, keras.layers.Dense(PIXELS)(keras.layers.Flatten()(z)))


class Memory(tfc.models.BoundModel):
    """x through one discrete code, with no prior."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = _network((PIXELS,), (3, 4)), _network((3, 4), (PIXELS,))
        self.latent = layers.ConcreteSample(seed=0)
        self.built = True

    def call(self, x, training=None):
        return self.decoder(self.latent(self.encoder(x), training=training))

    def training_terms(self, x, y):
        return {"loss": -self.likelihood.log_prob(x, self(x, training=True))}

    def discrete_terms(self, x, y):
        loss = -self.likelihood.log_prob(x, self(x, training=False))
        return {"loss": loss, "relaxed_loss": loss}


MODELS = {
    "VAE Concrete density": lambda: _vae(layers.ConcreteSample(seed=0)),
    "VAE Concrete, many classes": lambda: _vae(layers.ConcreteSample(seed=0), shape=(1, 100)),
    "VAE ExpConcrete mass": lambda: _vae(layers.ExpConcreteSample(seed=0), kl="mass"),
    "VAE binary": lambda: _vae(_binary(), shape=(6,)),
    "VAE gapped": lambda: _vae(layers.GapStraightThrough(seed=0)),
    "VAE Gumbel-Rao": lambda: _vae(layers.GumbelRao(seed=0)),
    "VAE IGR": lambda: _vae(layers.IGRSample(seed=0)),
    "VAE trainable prior": lambda: _vae(layers.ReinMax(seed=0), prior_logits="trainable"),
    "VAE of two layers": _stack,
    "VAE of subsets": lambda: _vae(layers.SubsetSample(2, seed=0)),
    "VAE of subsets, mass": lambda: _vae(layers.SubsetSample(2, seed=0), kl="mass", num_samples=3),
    "VAE IGR, stick-breaking": lambda: _vae(layers.IGRSample("stick_breaking", seed=0)),
    "Replicated": _functional,
    "BoundModel": Memory,
    "JointVAE": _joint,
    "StructuredPredictor": _structured,
    "ScoreFunctionPredictor nvil": lambda: _structured(
        tfc.models.ScoreFunctionPredictor, estimator="nvil"
    ),
    "ScoreFunctionVAE reinforce": lambda: _score("reinforce"),
    "ScoreFunctionVAE nvil": lambda: _score("nvil"),
    "ScoreFunctionVAE vimco": lambda: _score("vimco"),
    "ScoreFunctionVAE rloo": lambda: _score("rloo"),
    "ScoreFunctionVAE disarm": lambda: _score("disarm", _binary(), (6,)),
    "ScoreFunctionVAE disarm_tree": lambda: _score("disarm_tree"),
}
