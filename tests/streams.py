"""Whether recorded reads of random words overlap."""

import collections


def overlaps(reads):
    """Pairs of reads that share a block of one seed's stream."""
    found = []
    by_stream = collections.defaultdict(list)
    for read in reads:
        by_stream[read[:3]].append(read)
    for same in by_stream.values():
        same.sort(key=lambda read: read.first)
        last = None
        for read in same:
            if read.end == read.first:
                continue
            if last is not None and read.first < last.end:
                found.append((last, read))
            if last is None or read.end > last.end:
                last = read
    return found
