"""The types of NumPy arrays, and numbers in bf16, which NumPy has no type for."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
DoubleArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
BitArray = npt.NDArray[np.int16]
"""Numbers in bf16."""


def widened(bits: BitArray) -> FloatArray:
    """Numbers in bf16 as float32: these have 16 bits more behind."""
    return (bits.astype(np.uint16).astype(np.uint32) << 16).view(np.float32)
