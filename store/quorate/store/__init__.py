"""The store: keeps the messages of sources on disk, acknowledges them, and serves them again.

* `rules/` decides: promises, begins, streams, positions, deletion, readmission. No I/O is there.
* `storage/` keeps bytes on disk and knows no rule.
* `tasks/` runs in the background: it polls peers, repairs, compares, scrubs and lets go.
* `rpc/` answers calls, one file a call.
* `engine` lies between the rules and the writer; `node` puts one store together.
"""
