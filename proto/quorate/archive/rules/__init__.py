"""The parts of an archive: names, columns of files, sources. No I/O, no pyarrow."""
