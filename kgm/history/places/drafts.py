"""Files that are not complete yet: where they can be seen, and what they are called."""

from typing import Final

#: In these stores, as in a directory, a file appears when writing starts, so small files are renamed into place; until
#: then their names end in UNFINISHED.
RENAMING: Final = ("hdfs", "webhdfs")
UNFINISHED: Final = ".new"
