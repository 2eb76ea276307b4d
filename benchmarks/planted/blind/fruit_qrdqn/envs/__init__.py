from .fruit import FruitField
