"""Lets `python keras_examples/<example>.py` import the package that the example is part of.

Python looks for a script's imports in the script's own folder, where `keras_examples` is this
file: it puts the folder's parent in front and makes way for the package.
"""

import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
del sys.modules[__name__]
importlib.import_module(__name__)
