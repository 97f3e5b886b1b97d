"""Your own Keras model and data: edgebench convert+measure my_keras_model.py:net --data my_keras_model.py:samples."""

import keras
import numpy as np


def net() -> keras.Model:
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Conv2D(8, 3, strides=2, activation="relu"), keras.layers.Flatten(), keras.layers.Dense(4)]
    return keras.Sequential([keras.Input((32, 32, 3), name="image"), *layers])


def samples():  # one dict a sample; the key is the input's name
    rng = np.random.default_rng(0)
    for label in rng.integers(0, 4, 200):
        yield {"image": rng.normal(label, 1, (32, 32, 3)).astype("float32"), "label": label}
