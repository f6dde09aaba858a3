"""One look at all records, with NumPy: which screens have nothing to find, so that Spark need not ask.

A screen (check.py) is a pass of Spark over its table: rows are read, hashed, shuffled and grouped. That is what lets a history of
any size be judged, and it costs seconds where there is nothing to find, which is nearly always. A look reads the columns of up to
some million rows at once, in a Spark worker, of larger runs slice by slice, and says per log and table *plain* or nothing:

    plain       no row of the table is a suspect: the judge counts none
    not plain   perhaps; the screen decides, as if nobody had looked

So a look accuses nobody and may be too strict, but must never call plain what a screen would suspect. `tests/harness/checker/glance`
holds it against the definitions (oracle.py) on histories with anything wrong in them, and against the screens.

    columns.py    records as arrays: logs, values, clients as numbers, outcomes as their transactions settle them
    screens.py    the tables, as conditions on arrays
    logs.py       a row per log (LOOKED): its tally, and what is plain about it
    slices.py     how a run is cut of which no worker can hold all records
    carried.py    what slices have to know of each other
    plain.py      which tables are plain, once it is known how each log ended
    looks.py      the job: who looks at which files
"""
