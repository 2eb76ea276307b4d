"""CartPole: the yardstick that every trainer knows."""
