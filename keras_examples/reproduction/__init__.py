"""The tables and figures of the papers, measured: what `keras_examples.reproduce` runs.

`cells.py` is a run and where its result is kept, `tables.py` what a table is made of,
`running.py` the loop over cells, `rendering.py` the page; `gst.py`, `igr.py`, `concrete.py`
and `report.py` are the papers, each with its experiments and its tables;
`protocol.py` and `outside.py` look for the reasons of other numbers.
`claims.md` and `notes.md` are the page's own words.
"""
