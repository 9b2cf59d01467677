"""What the packages that this one plugs into have to be."""

import importlib
import importlib.metadata
import re


def numbers(version):
    """The leading numbers of a version, to be compared."""
    return tuple(int(n) for n in re.findall(r"\d+", version.split("+")[0])[:3])


def require(module, least, package=None):
    """The module, if it is installed and new enough; else an `ImportError` that says what to do.

    Args:
        module: name of the module that is imported.
        least: the oldest version that will do.
        package: what is to be installed, where it is not called as the module is.
    """
    package = package or module
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.split(".")[0]:
            raise
        raise ModuleNotFoundError(
            f"this module of lmc_gpu plugs into {package}, which is not installed: "
            f"pip install '{package}>={least}'",
            name=module,
        ) from None
    version = getattr(found, "__version__", None) or importlib.metadata.version(package)
    if numbers(version) < numbers(least):
        raise ImportError(
            f"this module of lmc_gpu needs {package} {least} or later, and {version} is installed: "
            f"pip install --upgrade {package}",
            name=module,
        )
    return found
