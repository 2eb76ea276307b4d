from .snake import SnakeGame
