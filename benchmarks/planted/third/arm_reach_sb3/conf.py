"""Minimal layered configuration: yaml files in order, then dotted overrides from the command line."""
import yaml


class Conf(dict):
    def __getattr__(self, key):
        try:
            value = self[key]
        except KeyError:
            raise AttributeError(key) from None
        return Conf(value) if isinstance(value, dict) else value


def merge(a, b):
    for k, v in b.items():
        if isinstance(v, dict) and isinstance(a.get(k), dict):
            merge(a[k], v)
        else:
            a[k] = v
    return a


def load(files, overrides=()):
    out = {}
    for f in files:
        with open(f) as fh:
            merge(out, yaml.safe_load(fh))
    for item in overrides:
        path, value = item.split("=", 1)
        node = out
        *head, last = path.split(".")
        for part in head:
            node = node.setdefault(part, {})
        node[last] = yaml.safe_load(value)
    return Conf(out)
