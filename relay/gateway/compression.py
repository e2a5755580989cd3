"""Compression of the bridge: the frames of a chunk together, with zstd."""

from __future__ import annotations

from relay.gateway.wire import Compressed, FrameParser, encode
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header

#: The fastest level: 600 MB/s on one core.
_LEVEL = 1
#: Compressed chunks are worth their cost from this share of their bytes.
_SHARE_MAX = 7 / 8


class Zstd:
    """Compresses and decompresses chunks; each stands alone, so none tells about an earlier one."""

    def __init__(self, read_bytes_max: int, write_bytes_max: int) -> None:
        """The bounds (bytes) of received and of sent decompressed chunks."""
        # Only nodes that compress need the package.
        import zstandard  # noqa: PLC0415

        self._read_bytes_max = read_bytes_max
        self._write_bytes_max = write_bytes_max
        self._failed = zstandard.ZstdError
        self._content_size = zstandard.frame_content_size
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL)
        self._decompressor = zstandard.ZstdDecompressor()

    def compress(self, frames: list[bytes]) -> list[bytes]:
        """Return encoded frames as one COMPRESSED, or as they are: above the bound, or if they hardly shrink."""
        content = b"".join(frames)
        if not 0 < len(content) <= self._write_bytes_max:
            return frames
        packed = encode(Compressed(self._compressor.compress(content)))
        return [packed] if len(packed) < len(content) * _SHARE_MAX else frames

    def decompress(self, data: bytes) -> bytes:
        """Return the content of a chunk.

        Raise ProtocolError unless it is one zstd frame that states its size, within the bound.
        """
        try:
            if not 0 < self._content_size(data) <= self._read_bytes_max:
                raise ProtocolError("bridge_compressed")
            return self._decompressor.decompress(data, allow_extra_data=False)
        except self._failed as error:
            raise ProtocolError("bridge_compressed") from error


class ChunkParser(FrameParser):
    """Also cuts decompressed chunks into frames. Holds one chunk beside the bounds of `FrameParser`."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(bytes_max)
        self.zstd: Zstd | None = None
        self._chunk: FrameParser | None = None

    def next_frame(self) -> Header | None:
        """Return the next whole frame, or None.

        Raises ProtocolError, also for a chunk that is nested or ends inside a frame.
        """
        while True:
            if self._chunk is not None:
                inner = self._chunk.next_frame()
                if isinstance(inner, Compressed) or (inner is None and self._chunk.unfinished_bytes):
                    raise ProtocolError("bridge_compressed")
                if inner is not None:
                    return inner
                self._chunk = None
            frame = super().next_frame()
            if not isinstance(frame, Compressed):
                return frame
            if self.zstd is None:
                raise ProtocolError("bridge_compressed")
            content = self.zstd.decompress(frame.data)
            self._chunk = FrameParser(len(content))
            self._chunk.feed(content)
