"""Version folders: the next free one, written whole or not at all."""

import contextlib
import errno
import os
import pathlib
import secrets
import shutil
import socket

import tensorflow as tf

from tfconcrete._checks import check_count, invalid_type, invalid_value

# Not a number, so a server passes it by; the host and process tell whether it is stale.
_PREFIX = ".incomplete"
_LARGEST = 2**63 - 1
# What the system says of a folder that cannot be written, or not that much.
_UNWRITABLE = {
    os.strerror(code): code
    for code in (
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
    )
}


class UnwritablePath(OSError, ValueError):
    """A folder that cannot be written: a wrong argument, and an error of the system."""

    def __str__(self):
        return self.args[0]


def check_path(path, argument="path"):
    """A local folder, as a `pathlib.Path`."""
    expected = "the path of a local folder"
    if not isinstance(path, (str, os.PathLike)):
        raise invalid_type(argument, expected, path)
    if not os.fspath(path) or "://" in os.fspath(path):
        raise invalid_value(argument, expected, path)
    return pathlib.Path(path)


def check_version(path, version):
    """Raises unless `version` is None or a free version number in `path`."""
    if version is None:
        return
    check_count(version, "version")
    if version > _LARGEST or version in versions(path):
        raise invalid_value("version", f"a version that {path} does not hold yet", version)


def versions(path):
    """The version numbers in a folder, in order, as a server reads them."""
    path = pathlib.Path(path)
    if not os.path.isdir(path):
        return []
    return sorted({int(entry.name) for entry in path.iterdir() if is_version(entry.name)})


def is_version(name):
    """Whether a server reads a folder of this name as a version."""
    return name.isascii() and name.isdigit() and int(name) <= _LARGEST


def version_folder(path, version):
    """The folder of a version (a server reads `007` as 7)."""
    entries = (entry for entry in pathlib.Path(path).iterdir() if is_version(entry.name))
    return next(entry for entry in entries if int(entry.name) == version)


@contextlib.contextmanager
def new_version(path, version=None):
    """A folder to fill, which becomes `<path>/<version>` when the block ends well.

    The version appears by one rename, with everything in it on the disk. When the block
    raises, everything that it wrote is removed again; when the process is killed, a
    folder is left that no server reads and that the next export removes.

    Args:
        path: The model's folder, made where it is missing.
        version: A free version number; None for one above the highest there is.

    Yields:
        `(folder, result)`: the temporary folder, and a dict whose `"path"` is the
        finished version after the block.
    """
    made = _make_folders(path)
    folder = path / f"{_PREFIX}-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    result = {}
    try:
        with _clear_errors(path):
            _remove_stale(path)
            folder.mkdir()
            yield folder, result
            _flush(folder)
            result["path"] = _publish(folder, path, version)
            _flush_entry(path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        _remove_folders(made)
        raise


def write_files(folder, contents, remove=()):
    """Writes files, each replaced whole: a reader sees the old content or the new one.

    Args:
        folder: Where to write, made where it is missing.
        contents: str or bytes by file name, in the order in which they are to appear.
        remove: Names of files to remove, if they are there.
    """
    made = _make_folders(folder)
    written = {folder / f"{_PREFIX}-{secrets.token_hex(4)}": name for name in contents}
    try:
        with _clear_errors(folder):
            for path, name in written.items():
                content = contents[name]
                path.write_bytes(content.encode() if isinstance(content, str) else content)
                _flush_entry(path)
            for path, name in written.items():
                os.replace(path, folder / name)
            for name in remove:
                (folder / name).unlink(missing_ok=True)
            _flush_entry(folder)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        _remove_folders(made)
        raise


def _remove_folders(made):
    for folder in reversed(made):
        with contextlib.suppress(OSError):
            folder.rmdir()


@contextlib.contextmanager
def _clear_errors(path):
    try:
        yield
    except OSError as error:
        if error.errno not in _UNWRITABLE.values():
            raise
        raise _unwritable(path, error.strerror or str(error)) from error
    except tf.errors.OpError as error:
        # TensorFlow's writers have classes of their own; the system's words are in them.
        reason = next((text for text in _UNWRITABLE if text in error.message), None)
        if reason is None:
            raise
        raise _unwritable(path, reason) from error


def _unwritable(path, reason):
    return UnwritablePath(
        "Invalid value received for argument `path`. Expected a folder that can be "
        f"written. Received: path={os.fspath(path)!r} ({reason})"
    )


def _make_folders(path):
    """Makes `path`; returns the folders that were missing, outermost first."""
    missing = [p for p in (path, *path.parents) if not os.path.exists(p)]
    made = []
    try:
        for folder in reversed(missing):
            folder.mkdir()
            made.append(folder)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        _remove_folders(made)
        raise _unwritable(path, error.strerror or str(error)) from error
    return made


def _publish(folder, path, version):
    """Renames to the version; to the next one where another process was faster."""
    while True:
        number = version
        if number is None:
            number = max(versions(path), default=0) + 1
        check_version(path, number)
        target = path / str(number)
        try:
            # A folder that holds anything is never replaced by a rename.
            os.rename(folder, target)
            return target
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
            check_version(path, version)


def _remove_stale(path):
    """Removes what exports of this machine left behind that were killed."""
    host = f"{_PREFIX}-{socket.gethostname()}-"
    for entry in path.glob(f"{_PREFIX}-*"):
        process = entry.name.removeprefix(host).split("-")[0]
        if entry.name.startswith(host) and process.isdigit() and not _is_alive(int(process)):
            shutil.rmtree(entry, ignore_errors=True)


def _is_alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _flush(folder):
    """Everything in the folder to the disk, so that no power cut leaves it half there."""
    for parent, _, names in os.walk(folder):
        for name in names:
            _flush_entry(os.path.join(parent, name))
        _flush_entry(parent)


def _flush_entry(path):
    if os.name == "posix":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
