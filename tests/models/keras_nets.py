"""Keras models that the tests load as `file.py:function`; copied into the test's folder."""

import keras
from keras import layers


def two_inputs():
    ids = keras.Input((7,), dtype="int32", name="ids")
    extra = keras.Input((3,), name="extra")
    hidden = layers.LSTM(16)(layers.Embedding(50, 8)(ids))
    main = layers.Add(name="main")([layers.Dense(3)(hidden), extra])
    return keras.Model([ids, extra], [main, layers.Dense(1, name="aux")(hidden)])


def sequential():
    return keras.Sequential(
        [keras.Input((8, 8, 1)), layers.Conv2D(4, 3), layers.BatchNormalization(), layers.Flatten(), layers.Dense(10)]
    )


def by_key():
    x = keras.Input((4,), name="q")
    return keras.Model({"q": x}, {"r": layers.Dense(2)(x), "a": layers.Dense(3)(x)})


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(2)

    def call(self, x, training=False):
        return self.dense(x)
