"""The declaration of a kernel in C: types and constants that follow from the game's EnvSpec and from its own constants.

It goes before `kernel.h` in every program that has the kernel in it, for the C compiler and for CUDA's alike, so nothing that
the reference says is written a second time in C.
"""

from math import isfinite, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hotlap.envs.spec import EnvSpec

C_TYPES = {
    "|u1": "uint8_t",
    "|i1": "int8_t",
    "<i2": "int16_t",
    "<u2": "uint16_t",
    "<i4": "int32_t",
    "<u4": "uint32_t",
    "<i8": "int64_t",
    "<u8": "uint64_t",
    "<f4": "float",
    "<f8": "double",
}
OBS_TYPES = ("<f4", "|u1", "<i2", "<i4")

INTEGERS = """\
#ifdef __CUDACC_RTC__ /* which has no headers */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#include <string.h>
#endif
"""


def declaration(spec: EnvSpec, defines: dict[str, int | float]) -> str:
    """What comes before `kernel.h`."""
    if spec.obs_dtype not in OBS_TYPES or not spec.action_sizes:
        raise ValueError("a kernel's observations are float32, uint8, int16 or int32 numbers, its actions discrete")
    if spec.seats > 1 and spec.agents > 1:
        raise ValueError("the players of a kernel take turns (seats) or act at the same time (agents), not both")
    constants: dict[str, Any] = {
        "OBS_LEN": prod(spec.obs_shape),
        "OBS_SIZE": spec.obs_size,
        "ACTIONS": len(spec.action_sizes),
        "ACTION_SIZES": "{" + ", ".join(map(str, spec.action_sizes)) + "}",
        "CHOICES": spec.choices,
        "MASKED": int(spec.masked),
        "SEATS": spec.seats,
        "AGENTS": spec.agents,
        "NUM_METRICS": len(spec.metrics),
        "NUM_TABLES": len(spec.tables),
    }
    lines = [f"#define {name} {value}" for name, value in constants.items()]
    lines += [f"typedef {C_TYPES[spec.obs_dtype]} Obs;", "typedef int64_t Action;", *_tables(spec)]
    lines += [f"#define {name} {_literal(name, value)}" for name, value in sorted(defines.items())]
    return INTEGERS + "\n".join(lines) + "\n"


def _tables(spec: EnvSpec) -> list[str]:
    """The struct of table pointers, and how it is filled for environment `i`: a table has a stride of 0 if all share it."""
    if not spec.tables:
        return ["typedef struct { const void *none; } Tables;", "#define TABLES_AT(base, strides, i) {0}"]
    pointers = " ".join(f"const {C_TYPES[table.dtype]} *{table.name};" for table in spec.tables)
    places = ", ".join(f"(base).{table.name} + (i) * (strides)[{n}]" for n, table in enumerate(spec.tables))
    return [f"typedef struct {{ {pointers} }} Tables;", f"#define TABLES_AT(base, strides, i) {{{places}}}"]


def _literal(name: str, value: float) -> str:
    if not isfinite(value):
        raise ValueError(f"{name}: a kernel's constants are finite numbers, not {value!r}")
    return f"({int(value) if isinstance(value, bool) else value!r})"


def check_tables(spec: EnvSpec, tables: dict[str, NDArray[Any]], all_of_them: bool = True) -> dict[str, NDArray[Any]]:
    """The tables as the kernel reads them; they must be those that the game declares."""
    declared = {table.name: table for table in spec.tables}
    if not tables.keys() <= declared.keys() or (all_of_them and tables.keys() != declared.keys()):
        raise ValueError(f"tables are {', '.join(declared) or 'not declared'}, not {', '.join(tables) or 'none'}")
    for name, array in tables.items():
        wanted = declared[name]
        if np.asarray(array).dtype.str != wanted.dtype or np.shape(array) != wanted.shape:
            found = f"{np.asarray(array).dtype.str} of shape {np.shape(array)}"
            raise ValueError(f"table {name} must be {wanted.dtype} of shape {wanted.shape}, not {found}")
    return {name: np.ascontiguousarray(array) for name, array in tables.items()}
