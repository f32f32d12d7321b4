"""Networks as short files: code, decode, and search for one that is short and makes few errors.

Nothing here knows of certificates. What makes a code worth having is that the lengths of all possible files satisfy
Kraft's inequality (`coder`), so that 2^-bits is a prior that was fixed before any data was seen.
"""

from truerisk.codes.compress import PRICE, compress
from truerisk.codes.network import bits, decode, encode
from truerisk.codes.quantize import quantize

__all__ = ["PRICE", "bits", "compress", "decode", "encode", "quantize"]
