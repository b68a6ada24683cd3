"""The consumer SDK: jobs of a queue, one after the other, and what became of each.

Applications open one through quorate.client. This module only exports names.
"""

from quorate.consumer.consumer import Consumer as Consumer
from quorate.consumer.job import Job as Job
from quorate.consumer.settling import Settling as Settling
