"""Every table and every experiment, by name."""

from keras_examples.reproduction import concrete, gst, igr, outside, protocol, report

_PAPERS = (gst, igr, concrete, report, protocol, outside)
TABLES = {table.name: table for paper in _PAPERS for table in paper.TABLES}
EXPERIMENTS = {name: found for paper in _PAPERS for name, found in paper.EXPERIMENTS.items()}
