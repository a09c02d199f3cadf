"""Every table and every experiment, by name."""

from keras_examples.reproduction import concrete, gst, igr, protocol, report

_PAPERS = (gst, igr, concrete, report, protocol)
TABLES = {table.name: table for paper in _PAPERS for table in paper.TABLES}
EXPERIMENTS = {name: found for paper in _PAPERS for name, found in paper.EXPERIMENTS.items()}
