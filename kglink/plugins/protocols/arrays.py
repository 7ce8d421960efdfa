"""Arrays as the contracts name them; only type checkers read this."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]
#: Vectors as they are kept: float32, float16, or the bits of bf16 as int16.
KeptVectors = npt.NDArray[np.float32 | np.float16 | np.int16]
