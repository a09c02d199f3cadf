"""Version folders: the next free one, written whole or not at all."""

import contextlib
import errno
import os
import pathlib
import secrets
import shutil
import socket

from tfconcrete._checks import check_count, invalid_type, invalid_value

# Not a number, so a server passes it by; the host and process tell whether it is stale.
_PREFIX = ".incomplete"
_LARGEST = 2**63 - 1


class UnwritablePath(OSError, ValueError):
    """A folder that cannot be written: a wrong argument, and an error of the system."""

    def __str__(self):
        return self.args[0]


def check_path(path):
    """A local folder, as a `pathlib.Path`."""
    expected = "the path of a local folder"
    if not isinstance(path, (str, os.PathLike)):
        raise invalid_type("path", expected, path)
    if not os.fspath(path) or "://" in os.fspath(path):
        raise invalid_value("path", expected, path)
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
    if not path.is_dir():
        return []
    names = (entry.name for entry in path.iterdir())
    return sorted({int(name) for name in names if name.isascii() and name.isdigit()})


def version_folder(path, version):
    """The folder of a version (a server reads `007` as 7)."""
    names = (entry for entry in pathlib.Path(path).iterdir() if entry.name.isdigit())
    return next(entry for entry in names if int(entry.name) == version)


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
        for parent in reversed(made):
            with contextlib.suppress(OSError):
                parent.rmdir()
        raise


@contextlib.contextmanager
def _clear_errors(path):
    try:
        yield
    except PermissionError as error:
        raise _unwritable(path, error) from error
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR):
            raise
        raise _unwritable(path, error) from error


def _unwritable(path, error):
    reason = error.strerror or str(error)
    return UnwritablePath(
        "Invalid value received for argument `path`. Expected a folder that can be "
        f"written. Received: path={os.fspath(path)!r} ({reason})"
    )


def _make_folders(path):
    """Makes `path`; returns the folders that were missing, outermost first."""
    missing = [p for p in (path, *path.parents) if not p.exists()]
    made = []
    try:
        for folder in reversed(missing):
            folder.mkdir()
            made.append(folder)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        for folder in reversed(made):
            folder.rmdir()
        raise _unwritable(path, error) from error
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
