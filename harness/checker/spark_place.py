"""Run directories on any path that Spark reads, through the file systems that Spark itself has: with its settings and credentials.

For what a driver reads whole: run.json, footers, tables of few rows. Rows of ops and records are Spark's to read. Bytes
travel through the gateway between Python and the JVM, some 20 MB/s.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkPlace:
    """A `Place` (harness.history.place) by its URI."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        self._uri = uri.rstrip("/")

    def __str__(self) -> str:
        return self._uri

    @property
    def name(self) -> str:
        return self._uri.rpartition("/")[2]

    def __truediv__(self, name: str, /) -> Self:
        return type(self)(self._spark, f"{self._uri}/{name}")

    def is_dir(self) -> bool:
        try:
            with _java_errors(self._uri):
                return bool(self._files().getFileStatus(self._path()).isDirectory())
        except FileNotFoundError:
            return False

    def glob(self, pattern: str, /) -> Iterator[Self]:
        """Of the directory's own entries. None where there is no such directory, as `Path.glob` has it."""
        if not self.is_dir():
            return
        with _java_errors(self._uri):
            names = [status.getPath().getName() for status in self._files().listStatus(self._path())]
        for name in names:
            if fnmatchcase(name, pattern):
                yield self / name

    def read_bytes(self) -> bytes:
        with self.open("rb") as file:
            content: bytes = file.read()
            return content

    def open(self, mode: str, /) -> IO[Any]:
        if mode != "rb":
            raise ValueError(f"opened for reading bytes, not {mode!r}")
        with _java_errors(self._uri):
            size = int(self._files().getFileStatus(self._path()).getLen())
            return io.BufferedReader(_Stream(self._uri, self._jvm(), self._files().open(self._path()), size), 1 << 20)

    def write_bytes(self, content: bytes) -> None:
        """Replace the file; directories above it are made."""
        with _java_errors(self._uri):
            out = self._files().create(self._path(), True)
            try:
                out.write(content)
            finally:
                out.close()

    def unlink(self) -> None:
        """It may be gone already."""
        with _java_errors(self._uri):
            self._files().delete(self._path(), False)

    def _jvm(self) -> Any:
        return self._spark.sparkContext._jvm

    def _path(self) -> Any:
        return self._jvm().org.apache.hadoop.fs.Path(self._uri)

    def _files(self) -> Any:
        context: Any = self._spark.sparkContext
        return self._path().getFileSystem(context._jsc.hadoopConfiguration())


class _Stream(io.RawIOBase):
    """An open file of the JVM."""

    def __init__(self, uri: str, jvm: Any, stream: Any, size: int) -> None:
        self._uri, self._jvm, self._java, self._size = uri, jvm, stream, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(base + offset, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = min(len(buffer), max(self._size - self._at, 0))
        if wanted:
            with _java_errors(self._uri):
                self._java.seek(self._at)
                buffer[:wanted] = self._jvm.org.apache.commons.io.IOUtils.toByteArray(self._java, wanted)
        self._at += wanted
        return wanted

    def close(self) -> None:
        if not self.closed:
            super().close()
            with _java_errors(self._uri):
                self._java.close()


@contextmanager
def _java_errors(uri: str) -> Iterator[None]:
    """As Python has them, without a page of Java."""
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        java = error.java_exception
        kind = java.getClass().getSimpleName()
        if kind == "FileNotFoundException":
            raise FileNotFoundError(uri) from None
        raise OSError(f"{kind}: {java.getMessage()}") from None
