"""The dispatcher of queues, which runs beside a store: see docs/queues.md.

It is a client of the group's stores. A subscription gives it the messages of the topics, and its
own source makes what it decides stable. Only `quorate.queue.beside` is for others.
"""
