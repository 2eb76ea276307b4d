"""The minibatches of one pass over a rollout, as training makes them."""

from hotlap.train.batches import batches_of


def minibatches(rollout, config, generator, progress, gradient):
    batches = batches_of(rollout, config, gradient)
    for draw in batches.draw(generator, progress):
        yield batches.rows(*draw)
