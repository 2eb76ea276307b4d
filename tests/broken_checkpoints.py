"""Mutations of checkpoints, each of which changes what the file means.

A mutation is a function (file, other, coin) -> bytes or None (a folder in its place); `other` is a checkpoint of another
algorithm. `signed` ones come with a manifest and checksums that agree, so that only what they say can be wrong.
"""

import hashlib
import json
import pickle
import struct
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save

from hotlap.train.checkpoint import ArrayEntry

MAY_CHANGE = {"total_steps", "device", "env_threads", "torch_threads", "workers", "async_factor", "env_timeout"}
STRANGE = (None, "nan", -1, 1e400, 2**70, [], {}, "", True, [[[]]], "\x00")


def mutate(kind, file: Path, other: Path, place: Path, coin) -> str:
    """Write a mutated copy of `file` to `place`; says what was changed."""
    content = kind(Unpacked(file), Unpacked(other), coin)
    if content is None:
        place.mkdir()
    else:
        assert meaning(content) != meaning(file.read_bytes()), kind.__name__
        place.write_bytes(content)
    return kind.__doc__ or kind.__name__


class Unpacked:
    """A checkpoint in parts that can be changed and put together again."""

    def __init__(self, path: Path) -> None:
        self.content = path.read_bytes()
        with safe_open(path, "numpy") as file:
            self.metadata = file.metadata()
            self.arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        self.manifest = json.loads(self.metadata["manifest"])
        self.header = 8 + struct.unpack("<Q", self.content[:8])[0]

    def pick(self, coin, rule=lambda name, array: array.size):
        return coin.choice(sorted(name for name, array in self.arrays.items() if rule(name, array)))

    def packed(self) -> bytes:
        """With the metadata as they are."""
        return save({name: np.ascontiguousarray(array) for name, array in self.arrays.items()}, self.metadata)

    def signed(self, text: str | None = None) -> bytes:
        """With a manifest that fits the arrays, and its checksum."""
        for name, array in self.arrays.items():
            entry = ArrayEntry.of(np.ascontiguousarray(array))
            self.manifest["arrays"][name] = {"dtype": entry.dtype, "shape": list(entry.shape), "checksum": entry.checksum}
        for name in set(self.manifest["arrays"]) - set(self.arrays):
            del self.manifest["arrays"][name]
        text = json.dumps(self.manifest) if text is None else text
        checksum = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        self.metadata = {**self.metadata, "manifest": text, "checksum": checksum}
        return self.packed()


def meaning(content: bytes):
    """A file without what does not matter: the blanks of its header, and the order of its keys."""
    try:
        header = 8 + struct.unpack("<Q", content[:8])[0]
        return json.loads(content[8:header]), content[header:]
    except (ValueError, struct.error, RecursionError):
        return content


# -- bytes --


def flip_a_byte(file, other, coin):
    at = coin.randrange(file.header, len(file.content))
    return _with(file.content, at, bytes([file.content[at] ^ coin.randrange(1, 256)]))


def flip_a_byte_of_the_header(file, other, coin):
    while True:
        at = coin.randrange(file.header)
        content = _with(file.content, at, bytes([file.content[at] ^ coin.randrange(1, 256)]))
        if meaning(content) != meaning(file.content):
            return content


def flip_many_bytes(file, other, coin):
    content = bytearray(file.content)
    for _ in range(coin.randrange(2, 100)):
        content[coin.randrange(len(content))] = coin.randrange(256)
    content[-1] ^= 1
    return bytes(content)


def cut_off(file, other, coin):
    return file.content[: coin.randrange(len(file.content))]


def cut_off_in_the_header(file, other, coin):
    return file.content[: coin.randrange(file.header)]


def leave_out_a_block(file, other, coin):
    at = coin.randrange(len(file.content) - 64)
    return file.content[:at] + file.content[at + coin.randrange(1, 64) :]


def add_bytes(file, other, coin):
    return file.content + coin.randbytes(coin.randrange(1, 100))


def zero_the_data(file, other, coin):
    return file.content[: file.header] + bytes(len(file.content) - file.header)


def empty(file, other, coin):
    return b""


def folder(file, other, coin):
    return None


def noise(file, other, coin):
    return coin.randbytes(coin.randrange(1, 5_000))


def header_length(file, other, coin):
    length = coin.choice([0, 1, 7, file.header - 9, file.header + 8, len(file.content), 2**31, 2**40, 2**63, 2**64 - 1])
    return struct.pack("<Q", length) + file.content[8:]


def header_of_its_own(file, other, coin):
    texts = [
        *("[" * 50_000, "{}", "[]", "null", '{"a": 1}', '{"__metadata__": []}', '{"a": {"dtype": "F32"}}', "\ud800", '{"a'),
        '{"a": {"dtype": "F32", "shape": [18446744073709551615, 9], "data_offsets": [0, 4]}}',
        '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}}',
    ]
    text = coin.choice(texts).encode(errors="surrogatepass")
    return struct.pack("<Q", len(text)) + text + file.content[file.header :]


def a_pickle(file, other, coin):
    return pickle.dumps({name: array.tolist() for name, array in sorted(file.arrays.items())[:3]})


# -- arrays, while the manifest stays as it was --


def rename(file, other, coin):
    name = file.pick(coin, lambda name, array: True)
    file.arrays[coin.choice([name + "x", name[:-1], "", "rank1/" + name, name.upper() + "_"])] = file.arrays.pop(name)
    return file.packed()


def remove(file, other, coin):
    for _ in range(coin.choice([1, 1, 2, len(file.arrays) - 1])):
        file.arrays.pop(file.pick(coin, lambda name, array: True))
    return file.packed()


def reshape(file, other, coin):
    name = file.pick(coin, lambda name, array: array.size > 1)
    file.arrays[name] = _reshaped(file.arrays[name], coin)
    return file.packed()


def retype(file, other, coin):
    name = file.pick(coin)
    file.arrays[name] = _retyped(file.arrays[name], coin)
    return file.packed()


def exchange(file, other, coin):
    """Two arrays of the same kind change places."""
    while True:
        a, b = file.pick(coin), file.pick(coin)
        if file.arrays[a].tobytes() != file.arrays[b].tobytes():
            file.arrays[a], file.arrays[b] = file.arrays[b], file.arrays[a]
            return file.packed()


def add(file, other, coin):
    file.arrays[coin.choice(["extra", "net.extra", "rank1/net", "generator.x", "replay.more"])] = np.zeros(3, np.float32)
    return file.packed()


def values(file, other, coin):
    name = file.pick(coin)
    array = np.array(file.arrays[name])
    flat = array.reshape(-1).view(np.uint8)
    flat[coin.randrange(len(flat))] ^= 1
    file.arrays[name] = array
    return file.packed()


def arrays_of_another(file, other, coin):
    file.arrays = other.arrays
    return file.packed()


# -- metadata, unsigned --


def drop_metadata(file, other, coin):
    for key in coin.sample(sorted(file.metadata), coin.choice([1, 2, 3])):
        del file.metadata[key]
    return file.packed()


def change_metadata(file, other, coin):
    key = coin.choice(sorted(file.metadata))
    file.metadata[key] = coin.choice(["", "{}", "null", "0", "hotlap.checkpoint/1", file.metadata[key] + " ", "\x00"])
    return file.packed()


def add_metadata(file, other, coin):
    return save(file.arrays, {**file.metadata, coin.choice(["numbers", "config", "Schema"]): "{}"})


def manifest_of_another(file, other, coin):
    file.metadata = other.metadata
    return file.packed()


def change_the_manifest(file, other, coin):
    """One value anywhere in it, without signing it again."""
    _change_somewhere(file.manifest, coin)
    file.metadata["manifest"] = json.dumps(file.manifest)
    return file.packed()


# -- signed: everything agrees, and yet it is wrong --


def signed_another(file, other, coin):
    return other.content


def signed_rename(file, other, coin):
    name = file.pick(coin, lambda name, array: True)
    new = coin.choice([name + "x", name[:-1] + "_", "rankx/" + name, "rank0/" + name, name.upper() + "_"])
    file.arrays[new] = file.arrays.pop(name)
    return file.signed()


def signed_remove(file, other, coin):
    file.arrays.pop(file.pick(coin, lambda name, array: True))
    return file.signed()


def signed_reshape(file, other, coin):
    name = file.pick(coin, lambda name, array: array.size > 1 and not name.startswith("generator"))
    file.arrays[name] = _reshaped(file.arrays[name], coin)
    return file.signed()


def signed_retype(file, other, coin):
    name = file.pick(coin)
    file.arrays[name] = _retyped(file.arrays[name], coin)
    return file.signed()


def signed_add(file, other, coin):
    file.arrays[coin.choice(["extra", "net.extra", "rank7/x", "rank/x", "generator.x", "replay.more"])] = np.zeros(
        3, np.float32
    )
    return file.signed()


def signed_system(file, other, coin):
    file.manifest[coin.choice(["system", "algorithm"])] = coin.choice(["snake", "CartPole-v0", "SAC", "", None, 3, ["PPO"]])
    return file.signed()


def signed_config(file, other, coin):
    config = file.manifest["config"]
    name = coin.choice(sorted(set(config) - MAY_CHANGE))
    if coin.random() < 0.3:
        del config[name]
    elif coin.random() < 0.3:
        config[f"{name}_more"] = 1
    else:
        config[name] = coin.choice([value for value in STRANGE if value != config[name] or isinstance(value, bool)])
    return file.signed()


def signed_config_of_another(file, other, coin):
    file.manifest["config"] = other.manifest["config"]
    return file.signed()


def signed_spec(file, other, coin):
    spec = file.manifest["spec"]
    name = coin.choice(sorted(spec))
    if spec[name] is not None and coin.random() < 0.2 and name in ("obs_shape", "obs_low", "obs_high", "action_sizes"):
        del spec[name]
    else:
        fresh = {"obs_dtype": ["|b1", "no", 3], "masked": [True, 2], "seats": [2, "1", -1], "agents": [3, 1.5], "obs_size": [7]}
        spec[name] = coin.choice(fresh.get(name, [[3], [1.5, "x"], "3", {"a": 1}, [[1]]]))
    return file.signed()


def signed_numbers(file, other, coin):
    numbers = file.manifest["numbers"]
    name = coin.choice(sorted(numbers))
    action = coin.randrange(3)
    if action == 0:
        del numbers[name]
    elif action == 1:
        numbers["more"] = 1
    else:
        numbers[name] = coin.choice([None, "1", -1, 1e400, 2**70, [], {}, True, [1], float("nan"), -0.5])
    return file.signed()


def signed_parts(file, other, coin):
    name = coin.choice(sorted(set(file.manifest) - {"arrays"}))
    if coin.random() < 0.5:
        del file.manifest[name]
    else:
        file.manifest[name] = coin.choice([None, 3, [], [[1]], True])
    return file.signed()


def signed_text(file, other, coin):
    texts = ["", "{", "[]", "null", "3", '"text"', "[" * 100_000, '{"hotlap": NaN}', "{}", '{"arrays": {}}']
    return file.signed(coin.choice(texts))


def signed_generator(file, other, coin):
    """A state that the random generator itself refuses."""
    name = file.pick(coin, lambda name, array: name.startswith("generator"))
    state = np.array(file.arrays[name])
    state[24:32] = 255
    file.arrays[name] = state
    return file.signed()


def signed_identity(file, other, coin):
    """Environments with other rules."""
    array = np.array(file.arrays["env.identity"])
    array[coin.randrange(len(array))] ^= 1
    file.arrays["env.identity"] = array
    return file.signed()


def _with(content: bytes, at: int, new: bytes) -> bytes:
    return content[:at] + new + content[at + len(new) :]


def _reshaped(array, coin):
    shapes = [(1, *array.shape), (*array.shape, 1), (array.size,), (1, array.size, 1)]
    options = [array.reshape(shape) for shape in shapes if shape != array.shape]
    if array.ndim:
        options += [array[:-1], np.concatenate([array, array])]
    return coin.choice(options)


def _retyped(array, coin):
    kinds = [np.float16, np.float64, np.int8, np.uint16, np.int64, np.float32, np.bool_, np.uint8]
    with np.errstate(all="ignore"):
        return array.astype(coin.choice([kind for kind in kinds if array.dtype != kind]))


def _change_somewhere(value, coin):
    while True:
        key = coin.choice(sorted(value) if isinstance(value, dict) else range(len(value)))
        if isinstance(value[key], dict | list) and value[key] and coin.random() < 0.9:
            value = value[key]
            continue
        before = json.dumps(value[key])
        value[key] = coin.choice(STRANGE)
        if json.dumps(value[key]) != before:
            return


KINDS = [
    function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
    if name not in ("mutate", "meaning", "Unpacked")
]
