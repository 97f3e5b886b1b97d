"""`zoo:digits-cnn-keras`: a small convolutional network for 8x8 digits, trained once and kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgebench.atomic import replacing
from edgebench.models.keras_models import import_keras, load_file

RECIPE_VERSION = 1
EPOCHS, BATCH, LEARNING_RATE, SEED = 12, 64, 2e-3, 0


def load(home: Path, log: Callable[[str], None]) -> Any:
    """The trained Keras model: float32 NHWC (n, 8, 8, 1) in 0..1 -> logits (n, 10)."""
    import_keras("MODEL 'zoo:digits-cnn-keras'")
    path = home / f"digits-cnn-keras-v{RECIPE_VERSION}.keras"
    if not path.is_file():
        model = build()
        _train(model, log)
        with replacing(path) as temporary:
            model.save(temporary)
    return load_file(path, trust=False)


def build() -> Any:
    """The network with random weights, the same at each call: three convolutions with BatchNorm, two dense layers."""
    import keras
    from keras import layers

    keras.utils.clear_session()
    keras.utils.set_random_seed(SEED)
    image = keras.Input((8, 8, 1), name="image")
    x = _block(_block(image, 32), 32)
    x = _block(layers.MaxPooling2D()(x), 64)
    x = layers.Flatten()(layers.MaxPooling2D()(x))
    x = layers.Dense(32, activation="relu")(x)
    return keras.Model(image, layers.Dense(10, name="logits")(x), name="digits-cnn-keras")


def _block(x: Any, filters: int) -> Any:
    from keras import layers

    x = layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9)(x)  # Keras' 0.99 needs more steps than this training has
    return layers.ReLU()(x)


def _train(model: Any, log: Callable[[str], None]) -> None:
    import keras

    from edgebench.data import digits

    images, labels = digits.train_split()
    steps = EPOCHS * -(-len(labels) // BATCH)
    rate = keras.optimizers.schedules.CosineDecay(LEARNING_RATE, steps)
    model.compile(
        optimizer=keras.optimizers.AdamW(rate, weight_decay=1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    told = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: log(
            f"digits-cnn-keras: epoch {epoch + 1} of {EPOCHS}, loss {logs['loss']:.4f}"
        )
    )
    model.fit(images, labels, batch_size=BATCH, epochs=EPOCHS, verbose=0, callbacks=[told])
