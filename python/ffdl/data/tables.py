"""Opens Parquet and Arrow files as data sets. Requires pyarrow."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import (
    Corrupt, Error, Exhausted, InvalidArgument, NotFound, Unavailable, Unimplemented,
)
from .limits import WHAT_TO_RAISE


_Path = str | os.PathLike[str]


def open_parquet(
    paths: Sequence[_Path], columns: Sequence[str] | None = None, *, cached_bytes: int = 1 << 28,
    skip_corrupt: bool = False,
) -> TableSource:
    """Opens Parquet files as a TableSource, a data set of rows in the order of `paths`."""
    return TableSource(_ParquetFile, paths, columns, cached_bytes, skip_corrupt)


def open_arrow(
    paths: Sequence[_Path], columns: Sequence[str] | None = None, *, cached_bytes: int = 1 << 28,
    skip_corrupt: bool = False,
) -> TableSource:
    """Opens Arrow IPC files and streams (Feather, Hugging Face) as a TableSource of rows."""
    return TableSource(_ArrowFile, paths, columns, cached_bytes, skip_corrupt)


class SkippedRows(NamedTuple):
    """Counts of the data that a TableSource has left out, as TableSource.skipped explains."""

    samples: int
    bytes: int
    first: str


class TableSource:
    """A data set of the rows in table files, for ElasticLoader or for direct use.

    ::

        data = ffdl.data.open_parquet(["a.parquet", "b.parquet"], columns=["tokens", "label"])
        loader = ffdl.data.ElasticLoader(data, batch_samples=64, partition_samples=10_000)

    A TableSource is created by open_parquet() or open_arrow(). Each row is a sample. read() returns
    rows as a dict of columns. A column of numbers is a NumPy array. A column of fixed-size lists of
    numbers is a two-dimensional NumPy array. Any other column (text, bytes, lists, structures) is a
    list of Python values. If no collate_fn is set, ElasticLoader returns a batch as a dict of
    columns. If a collate_fn is set, it receives a list of rows, each as a dict.

    A file consists of pieces: row groups (Parquet) or record batches (Arrow). To read a row, a
    TableSource reads the whole piece that contains the row. The most recently used pieces stay in
    memory, up to ``cached_bytes`` bytes, but at least one piece. If rows are shuffled within
    partitions that are about as large as a piece, each piece is read once per epoch. If all rows
    are shuffled together and not all pieces fit in memory, nearly every row needs another piece to
    be read.

    A TableSource validates each piece as a whole before it uses any of the piece's values.

    skip_corrupt: if True, the rows of a corrupt piece are left out, and ``skipped`` counts these
    rows. With skip_corrupt, a file whose schema is not readable is left out, too. For a row that is
    left out, ``data[i]`` returns None, and ``read()`` returns only the other rows. By default,
    skip_corrupt is False, and a corrupt piece or schema raises Corrupt. A piece is corrupt if
    pyarrow cannot decode the piece, or if a Parquet page does not match its checksum.

    Threads: any thread may use a TableSource, also in forked processes. An unpickled TableSource
    opens its files again. pyarrow reads and decompresses without the GIL. The pieces of one file
    are read one at a time.

    Raises NotFound, Unavailable and Corrupt. If a piece is corrupt, the message names the file and
    the piece. Raises Unimplemented if pyarrow is missing, or if a file's format or types are not
    supported. Raises InvalidArgument if a file lacks a column, if the type of a column differs
    between files, or if a number is null. Raises Exhausted if a piece does not fit in memory, or if
    too many files are open.
    """

    def __init__(
        self, kind: type[_File], paths: Sequence[_Path], columns: Sequence[str] | None,
        cached_bytes: int, skip_corrupt: bool,
    ) -> None:
        if isinstance(paths, (str, os.PathLike)) or not paths:
            raise InvalidArgument(f"open tables: paths are {paths!r}; give a list of files")
        self._kind = kind
        self._cached_bytes = cached_bytes
        self.leaves_out = skip_corrupt
        self._not_opened = (0, "")  # bytes of files, and the reason of the first
        self._files = [file for file in map(self._open, paths) if file is not None]
        if not self._files:
            raise Corrupt(f"open tables: none of {len(paths)} files can be read: "
                          f"{self._not_opened[1]}")
        first = self._files[0]
        names = first.schema.names if columns is None else list(columns)
        self._types = {name: first.type_of(name) for name in names}
        for file in self._files:
            self._compare(file, all_of_them=columns is None)
        rows = [count for file in self._files for count in file.piece_rows]
        self._pieces = [(f, p) for f, file in enumerate(self._files)
                        for p in range(len(file.piece_rows))]
        self._ends = list(itertools.accumulate(rows))
        self._forget()

    @property
    def samples(self) -> int:
        """The number of rows in all files."""
        return self._ends[-1] if self._ends else 0

    @property
    def columns(self) -> list[str]:
        """The names of the columns of a sample."""
        return list(self._types)

    def __len__(self) -> int:
        return self.samples

    @property
    def skipped(self) -> SkippedRows:
        """Counts of the data that this process has left out.

        samples: the number of requested rows that were left out. If a row is requested twice, it
        counts twice.
        bytes: the total size of the files whose schema is not readable.
        first: the reason why the first file or row was left out.
        """
        with self._lock:
            rows, first = self._left_out
        return SkippedRows(rows, self._not_opened[0], self._not_opened[1] or first)

    def read(self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]) -> dict[str, Any]:
        """Returns the rows with the numbers `indices`, as a dict of columns."""
        return self.read_left(indices)[0]

    def read_left(
        self, indices: Sequence[int] | npt.NDArray[np.integer[Any]]
    ) -> tuple[dict[str, Any], int]:
        """Returns the result of read(), and the number of corrupt rows that it leaves out."""
        table, given = self._take(np.asarray(indices, np.int64))
        columns = {name: self._values(name, table.column(name)) for name in self._types}
        return columns, int(given.size - given.sum())

    def __getitem__(self, number: int) -> dict[str, Any]:
        if not 0 <= number < self.samples:
            raise IndexError(f"row {number} of {self.samples}")
        return self.__getitems__([number])[0]

    def __getitems__(self, numbers: Sequence[int]) -> list[Any]:
        table, given = self._take(np.asarray(numbers, np.int64))
        columns = {name: self._values(name, table.column(name)) for name in self._types}
        rows = ({name: column[i] for name, column in columns.items()} for i in itertools.count())
        return [next(rows) if is_given else None for is_given in given]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_lock"], state["_cache"], state["_left_out"], state["_broken"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    def _open(self, path: _Path) -> _File | None:
        try:
            return self._kind(path)
        except Corrupt as error:
            if not self.leaves_out:
                raise
            size, first = self._not_opened
            self._not_opened = (size + os.path.getsize(path), first or str(error))
            return None

    def _forget(self) -> None:
        self._lock = threading.Lock()
        self._left_out = (0, "")  # rows, and the reason of the first
        self._broken: dict[int, str] = {}  # pieces, and the reason of each
        self._cache: OrderedDict[int, Any] = OrderedDict()

    def _compare(self, file: _File, *, all_of_them: bool) -> None:
        first = self._files[0].path
        for name, wanted in self._types.items():
            if (found := file.type_of(name)) != wanted:
                raise InvalidArgument(
                    f"open tables: column '{name}' is {found} in '{file.path}' and {wanted} in "
                    f"'{first}'; write equal types, or leave the column out with columns="
                )
        more = [name for name in file.schema.names if name not in self._types]
        if all_of_them and more:
            raise InvalidArgument(
                f"open tables: '{file.path}' has a column '{more[0]}', which '{first}' lacks; "
                "choose columns with columns="
            )

    def _take(self, numbers: npt.NDArray[np.int64]) -> tuple[Any, npt.NDArray[np.bool_]]:
        """Returns the rows in the order of `numbers`, and a mask: False for rows left out."""
        if numbers.size and not (0 <= numbers.min() and numbers.max() < self.samples):
            raise InvalidArgument(
                f"read rows {numbers.min()} to {numbers.max()} of '{self._files[0].path}' and "
                f"others: there are {self.samples}; ask for one of them"
            )
        which = np.searchsorted(self._ends, numbers, side="right")
        parts = []
        given = np.ones(numbers.size, bool)
        order = np.argsort(which, kind="stable")
        bounds = np.flatnonzero(np.diff(which[order])) + 1
        for places in np.split(order, bounds) if numbers.size else []:
            piece = int(which[places[0]])
            begin = self._ends[piece - 1] if piece else 0
            if (table := self._whole_piece(piece, places.size)) is None:
                given[places] = False
            else:
                parts.append(self._taken([table], numbers[places] - begin))
        if not parts:
            return _pyarrow().schema(list(self._types.items())).empty_table(), given
        order = order[given[order]]
        back = np.empty(numbers.size, np.int64)
        back[order] = np.arange(order.size)
        return self._taken(parts, back[given]), given

    def _taken(self, tables: list[Any], rows: npt.NDArray[np.int64]) -> Any:
        return _call(
            f"take {rows.size} rows of '{self._files[0].path}' and others",
            lambda: _pyarrow().concat_tables(tables).take(rows))

    def _whole_piece(self, number: int, rows: int) -> Any:
        """Returns a piece. None: the piece is corrupt, and `rows` rows were counted as left out."""
        if not self.leaves_out:
            return self._piece(number)
        with self._lock:
            why = self._broken.get(number)
        if why is None:
            try:
                return self._piece(number)
            except Corrupt as error:
                why = str(error)
        with self._lock:
            self._broken[number] = why
            self._left_out = (self._left_out[0] + rows, self._left_out[1] or why)
        return None

    def _piece(self, number: int) -> Any:
        with self._lock:
            if (table := self._cache.get(number)) is not None:
                self._cache.move_to_end(number)
                return table
        file, piece = self._pieces[number]
        table = self._files[file].read(piece, list(self._types))
        with self._lock:
            self._cache[number] = table
            self._cache.move_to_end(number)
            while len(self._cache) > 1 and (
                    sum(one.nbytes for one in self._cache.values()) > self._cached_bytes):
                self._cache.popitem(last=False)
        return table

    def _values(self, name: str, column: Any) -> Any:
        return _call(
            f"read column '{name}' of '{self._files[0].path}' and others",
            lambda: self._converted(name, column),
            "write values that Python supports, or leave the column out with columns=")

    def _converted(self, name: str, column: Any) -> Any:
        types = _pyarrow().types
        kind = column.type
        is_rows = types.is_fixed_size_list(kind) and _is_number(kind.value_type)
        if not is_rows and not _is_number(kind):
            return column.to_pylist()
        flat = column.combine_chunks()
        values = flat.flatten() if is_rows else flat
        if flat.null_count or values.null_count:
            raise InvalidArgument(
                f"read column '{name}' of '{self._files[0].path}' and others: a number is null; "
                "fill it in, or leave the column out with columns="
            )
        array: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
        return array.reshape(len(flat), kind.list_size) if is_rows else array


class _File:
    """A table file, with its schema and the number of rows in each piece."""

    schema: Any
    piece_rows: list[int]

    def __init__(self, path: _Path) -> None:
        self.path = str(path)
        self._lock = threading.Lock()
        if os.path.isdir(self.path):
            raise InvalidArgument(f"open '{self.path}': it is a folder; name its files")
        self._call("open", self._open)
        self._call("open", lambda: self.schema.names)  # the names may be no text

    def type_of(self, name: str) -> Any:
        places = self.schema.get_all_field_indices(name)
        if len(places) != 1:
            raise InvalidArgument(
                f"open tables: '{self.path}' has {len(places) or 'no'} column '{name}'; choose "
                f"from {', '.join(self.schema.names)}"
            )
        return self.schema.field(places[0]).type

    def read(self, piece: int, columns: list[str]) -> Any:
        """Reads a piece, then validates its values, because pyarrow reads without validation."""
        def read_whole() -> Any:
            table = self._read(piece, columns)
            table.validate(full=True)
            return table

        with self._lock:
            begin = self._begin(piece)
            where = "" if begin is None else f" at byte {begin}"
            table = self._call(f"read {self.word} {piece}{where} of", read_whole)
        if table.num_rows != self.piece_rows[piece]:
            raise Corrupt(
                f"read {self.word} {piece} of '{self.path}': it has {table.num_rows} rows and had "
                f"{self.piece_rows[piece]} when it was opened; leave the files of a data set alone "
                "while they are in use"
            )
        return table

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]

    def _call(self, doing: str, call: Any) -> Any:
        return _call(f"{doing} '{self.path}'", call)

    word = "part"

    def _open(self) -> None:
        raise NotImplementedError

    def _begin(self, piece: int) -> int | None:
        """Returns the piece's offset in the file. None: the offset is unknown."""
        return None

    def _read(self, piece: int, columns: list[str]) -> Any:
        raise NotImplementedError


class _ParquetFile(_File):
    word = "row group"

    def _open(self) -> None:
        from pyarrow import parquet

        self._file = parquet.ParquetFile(self.path, page_checksum_verification=True)
        self.schema = self._file.schema_arrow
        metadata = self._file.metadata
        self.piece_rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]

    def _read(self, piece: int, columns: list[str]) -> Any:
        return self._file.read_row_group(piece, columns=columns, use_threads=False)


class _ArrowFile(_File):
    word = "record batch"

    def _open(self) -> None:
        # Validated in a mapping, which reads no values. Read with copies: bytes that vanish from a
        # mapping would end the process.
        arrow = _pyarrow()
        self._source = arrow.OSFile(self.path)
        self._options = arrow.ipc.IpcReadOptions(use_threads=False)
        self._messages: list[tuple[int, int]] | None = None  # offset of each batch of a stream
        mapped = arrow.memory_map(self.path)
        if mapped.read_at(6, 0) != b"ARROW1":
            self._scan_stream(mapped)
            return
        with arrow.ipc.open_file(mapped, options=self._options) as file:
            self.schema = file.schema
            batches = (file.get_batch(i) for i in range(file.num_record_batches))
            self.piece_rows = [batch.num_rows for batch in batches]
        self._file = arrow.ipc.open_file(self._source, options=self._options)

    def _scan_stream(self, mapped: Any) -> None:
        reader = _pyarrow().ipc.open_stream(mapped, options=self._options)
        self.schema = reader.schema
        for field in self.schema:
            if "dictionary<" in str(field.type):
                raise Unimplemented(
                    f"open '{self.path}': column '{field.name}' of this stream is a dictionary; "
                    "write an Arrow file or Parquet"
                )
        self.piece_rows = []
        self._messages = []
        while True:
            begin = mapped.tell()
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
            if mapped.tell() <= begin:
                raise Corrupt(f"open '{self.path}': the record batch at byte {begin} ends where it "
                              "begins; copy or write it again")
            self._messages.append((begin, mapped.tell() - begin))
            self.piece_rows.append(batch.num_rows)

    def _begin(self, piece: int) -> int | None:
        return None if self._messages is None else self._messages[piece][0]

    def _read(self, piece: int, columns: list[str]) -> Any:
        arrow = _pyarrow()
        if self._messages is None:
            batch = self._file.get_batch(piece)
        else:
            begin, size = self._messages[piece]
            message = arrow.ipc.read_message(arrow.py_buffer(self._source.read_at(size, begin)))
            batch = arrow.ipc.read_record_batch(message, self.schema)
        return arrow.Table.from_batches([batch]).select(columns)


def _call(doing: str, call: Any, advice: str = "copy or write it again") -> Any:
    """Calls `call` and converts any exception of pyarrow to an error of ffdl."""
    arrow = _pyarrow()
    try:
        return call()
    except FileNotFoundError:
        raise NotFound(f"{doing}: no such file; check the path") from None
    except arrow.ArrowNotImplementedError as error:
        raise Unimplemented(f"{doing}: {error}; write other types or compression") from error
    except MemoryError as error:
        raise Exhausted(
            f"{doing}: {error or 'there is no memory left'}; write it again in smaller pieces, ask "
            "for fewer rows at once, or raise 'ulimit -v' or the container's limit of memory"
        ) from error
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise Exhausted(f"{doing}: {error}; {WHAT_TO_RAISE[error.errno]}") from error
        # pyarrow reports bytes missing from a truncated file in this way, too.
        kind = Unavailable if error.errno else Corrupt
        raise kind(f"{doing}: {error}; check the file") from error
    except Error:
        raise
    except Exception as error:  # of any kind, if the file is not as its writer wrote it
        raise Corrupt(f"{doing}: {error}; {advice}") from error


def _is_number(kind: Any) -> bool:
    types = _pyarrow().types
    return (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
            or types.is_timestamp(kind) or types.is_date(kind) or types.is_duration(kind))


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        raise Unimplemented(
            "read tables: pyarrow is not installed; pip install 'ffdl[tables]'") from None
    return pyarrow
