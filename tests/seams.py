"""The places in the product that tests replace, each by a name.

A test that makes a timeout short, or takes out a guard, replaces something of the product. The test
names a seam of this table and imports no module for it. A move of a module or of a function changes
one line here. `tests/test_seams.py` checks that each seam exists, that some test uses it, and that
no test replaces anything of the product without a seam.

Some names end in `_IN_` and a module: that module imports the function or the class from another
one. The seam is where the name is used, so that the other users keep the real one.

What tests replace of their own doubles, and of the standard library, is not here.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Seam:
    """A place in the product that tests replace: an attribute of a module, or of a class in it.

    Example:
        seams.REPAIR_ROUND_SECONDS.replace(monkeypatch, 0.02)
    """

    module: str
    attribute: str
    """Dotted, if a class has it: `StoreCore.promise`."""

    def real(self) -> Any:
        """Return what the product has there. Raise AttributeError if it has nothing."""
        return getattr(*self._place())

    def replace(self, to: pytest.MonkeyPatch, value: Any) -> None:
        """Put this value there, until `to` is undone. Raise AttributeError if nothing is there."""
        to.setattr(*self._place(), value)

    @contextmanager
    def replaced(self, value: Any) -> Iterator[None]:
        """Put this value there for a block. Raise AttributeError if nothing is there."""
        with pytest.MonkeyPatch.context() as to:
            self.replace(to, value)
            yield

    def _place(self) -> tuple[Any, str]:
        """Return the module or the class, and the name of its attribute."""
        owner, _, name = self.attribute.rpartition(".")
        return pkgutil.resolve_name(f"{self.module}:{owner}"), name


# Of the protocol.

FETCH_ANSWERS = "quorate.protocol.answers"
FETCH_ANSWERS_PROTOCOL_VERSION = Seam(FETCH_ANSWERS, "PROTOCOL_VERSION")

BOOKMARKS = "quorate.protocol.bookmarks"
PLACE_BELONGS_TO = Seam(BOOKMARKS, "Place.belongs_to")

COLUMNS = "quorate.protocol.columns"
BODY_READ_KEYS = Seam(COLUMNS, "Body.read_keys")
BODY_READ_PROPERTIES = Seam(COLUMNS, "Body.read_properties")

FRAMING = "quorate.protocol.framing"
PACK_IN_FRAMING = Seam(FRAMING, "pack")

DELAYS = "quorate.protocol.delays"
DELAYS_OF_REPAIR = Seam(DELAYS, "REPAIR")

LINEAGE = "quorate.protocol.lineage"
LINEAGE_VALID = Seam(LINEAGE, "Lineage.valid")

POLICY = "quorate.protocol.policy"
GROUP_HOLDS = Seam(POLICY, "Group.holds")
POLICY_BLOCKS = Seam(POLICY, "Policy.blocks")
POLICY_STABLE = Seam(POLICY, "Policy.stable")

RECOVERY = "quorate.protocol.recovery"
RECOVERY_MAY_BE_STABLE_UPTO = Seam(RECOVERY, "_may_be_stable_upto")
RECOVERY_RELEASED_BELOW = Seam(RECOVERY, "released_below")
RECOVERY_NEWEST_BEGUN = Seam(RECOVERY, "newest_begun")
RECOVERY_OF_GENERATION = Seam(RECOVERY, "of_generation")

# Of the source's clock.

SOURCE = "quorate.source.source"
SOURCE_TIME_NS = Seam(SOURCE, "time_ns")

# Of the transport.

EVENT_LOG = "quorate.transport.event_log"
EVENTS_KEPT = Seam(EVENT_LOG, "EVENTS_KEPT")

CHANNELS = "quorate.transport.channels"
SERVER_OPTIONS = Seam(CHANNELS, "_SERVER_OPTIONS")
OPEN_CHANNEL = Seam(CHANNELS, "open_channel")
"""Each connection of a client opens its channel by it."""

CONNECTIONS = "quorate.transport.connections"
CONNECTIONS_FETCHES_MAX = Seam(CONNECTIONS, "FETCHES_MAX")

DEREGISTER = "quorate.transport.deregister"
REPEAT_IN_DEREGISTER = Seam(DEREGISTER, "REPEAT")

# Of the store.

STORE_ENGINE = "quorate.store.engine"
STORE_ENGINE_LIMBO_REASON = Seam(STORE_ENGINE, "Engine.limbo_reason")
STORE_ENGINE_MADE_DURABLE = Seam(STORE_ENGINE, "Engine.made_durable")
STORE_ENGINE_SETTLED = Seam(STORE_ENGINE, "Engine.settled")

STORE_STARTUP = "quorate.store.startup"
STORE_STARTUP_SOURCES = Seam(STORE_STARTUP, "sources")

STORE_NODE = "quorate.store.node"
STORE_NODE_GRACE_SECONDS = Seam(STORE_NODE, "_GRACE_SECONDS")

GROUP_WATCH = "quorate.store.monitor.group_watch"
GROUP_WATCH_ANSWER_SECONDS_MAX = Seam(GROUP_WATCH, "ANSWER_SECONDS_MAX")
GROUP_WATCH_LOOK_SECONDS = Seam(GROUP_WATCH, "LOOK_SECONDS")

MONITOR_CONNECTION = "quorate.store.monitor.connection"
MONITOR_IDLE_SECONDS = Seam(MONITOR_CONNECTION, "IDLE_SECONDS")
MONITOR_REQUEST_SECONDS = Seam(MONITOR_CONNECTION, "REQUEST_SECONDS")

MONITOR_SERVER = "quorate.store.monitor.server"
REQUEST_SECONDS_IN_MONITOR_SERVER = Seam(MONITOR_SERVER, "REQUEST_SECONDS")

STORE_APPEND = "quorate.store.rpc.append"
STORE_LANES = "quorate.store.rpc.lanes"
STORE_LANES_BUNDLES_MAX = Seam(STORE_LANES, "BUNDLES_MAX")
STORE_LANES_LANES_MAX = Seam(STORE_LANES, "LANES_MAX")
STORE_LANES_FIRST_FRAMES_SECONDS = Seam(STORE_LANES, "FIRST_FRAMES_SECONDS")
STORE_APPEND_RECEIVERS_SECONDS = Seam(STORE_APPEND, "RECEIVERS_SECONDS")

STORE_BUNDLE = "quorate.store.rpc.bundle"
BUNDLE_ANSWERED_ONCE_MAX = Seam(STORE_BUNDLE, "ANSWERED_ONCE_MAX")
BUNDLE_FIRST_REQUEST_SECONDS = Seam(STORE_BUNDLE, "FIRST_REQUEST_SECONDS")
BUNDLE_WATCHES_MAX = Seam(STORE_BUNDLE, "WATCHES_MAX")
STORE_FETCH = "quorate.store.rpc.fetch"
ANSWER_PACKING_IN_STORE_FETCH = Seam(STORE_FETCH, "AnswerPacking")
STORE_FETCH_CHUNK_BATCHES_MAX = Seam(STORE_FETCH, "_CHUNK_BATCHES_MAX")
STORE_FETCH_PACK_LACKING = Seam(STORE_FETCH, "_pack_lacking")

STORE_RESTORE = "quorate.store.rpc.restore"
STORE_RESTORE_SILENT_SECONDS = Seam(STORE_RESTORE, "SILENT_SECONDS")
STORE_RESTORE_STEP_BYTES = Seam(STORE_RESTORE, "_STEP_BYTES")

GROUP_COMMIT_LAZY_SECONDS = Seam("quorate.store.storage.group_commit", "_LAZY_SECONDS")

STORE_SUBSCRIBE = "quorate.store.rpc.subscribe"
LAG_SECONDS_IN_SUBSCRIBE = Seam(STORE_SUBSCRIBE, "LAG_SECONDS")
STORE_SUBSCRIBE_CHUNK_ROWS_MAX = Seam(STORE_SUBSCRIBE, "_CHUNK_ROWS_MAX")
STORE_SUBSCRIBE_READ_PASSED = Seam(STORE_SUBSCRIBE, "_read_passed")

STATE_CANDIDATES_BYTES_MAX = Seam("quorate.store.rules.state_candidates", "WHOLE_BATCH_BYTES_MAX")
STATE_LARGE_PART_BYTES = Seam("quorate.store.storage.large_rows", "FRAGMENT_BYTES")
STATE_PEERS_BYTES_MAX = Seam("quorate.store.tasks.state_peers", "WHOLE_BATCH_BYTES_MAX")
STATE_MAKING = "quorate.store.tasks.state"
STATE_MAKING_GIVE_WAY = Seam(STATE_MAKING, "give_way")
STATE_MAKING_SWEEP_SECONDS = Seam(STATE_MAKING, "SWEEP_SECONDS")
STATE_MAKING_GOES_ON_FROM = Seam(STATE_MAKING, "StateMaking.goes_on_from")
STATE_WATCHERS = "quorate.store.tasks.state_watchers"
STATE_WATCHERS_KEYS_MAX = Seam(STATE_WATCHERS, "KEYS_MAX")
STATE_WATCHERS_OWE = Seam(STATE_WATCHERS, "KeyWatcher.owe")
STATE_QUERIES = "quorate.store.rpc.state"
STATE_QUERIES_GIVE_SECONDS = Seam(STATE_QUERIES, "_GIVE_SECONDS")
STATE_QUERIES_READ_SECONDS = Seam(STATE_QUERIES, "_READ_SECONDS")
STATE_PAST = "quorate.store.rpc.state_past"
STATE_PAST_CHANGED_MAX = Seam(STATE_PAST, "CHANGED_MAX")
STATE_PAST_UNPACK_HIDDEN = Seam(STATE_PAST, "unpack_hidden")
PAST_COUNTS = Seam(STATE_PAST, "Past._counts")
PAST_IS_LET_GO = Seam(STATE_PAST, "Past._is_let_go")
PAST_SEARCH = Seam(STATE_PAST, "Past._search")
SQL = "quorate.subscriber.io.sql"
SQL_TABLE_BYTES_MAX = Seam(SQL, "TABLE_BYTES_MAX")
HELD_ROWS = "quorate.subscriber.protocol.held_rows"
HELD_ROWS_COMPLETED = Seam(HELD_ROWS, "HeldRows.completed")
HELD_ROWS_EXPIRED = Seam(HELD_ROWS, "HeldRows.expired")
HELD_ROWS_IS_NEW = Seam(HELD_ROWS, "HeldRows.is_new")

STATE_PROGRESS_GENERATION_OF = Seam("quorate.store.tasks.state_progress", "generation_of")
STATE_READING = "quorate.store.rpc.state_reading"
STATE_READING_STEP_ROWS_MAX = Seam(STATE_READING, "STEP_ROWS_MAX")
STATE_READING_HAS_CHANGED = Seam(STATE_READING, "has_changed")
STATE_READING_SORTED_MAX = Seam(STATE_READING, "SORTED_MAX")

JOURNAL = "quorate.store.storage.journal"
JOURNAL_SCANNED_ROWS = Seam(JOURNAL, "_SCANNED_ROWS")

ENDING = "quorate.store.rules.ending"
ENDING_IS_REACHED = Seam(ENDING, "Ending.is_reached")
ENDING_UPTO = Seam(ENDING, "Ending.upto")

LAG = "quorate.store.rules.lag"
LAG_SECONDS = Seam(LAG, "LAG_SECONDS")
LAGS_NOTE = Seam(LAG, "Lags.note")

SUBSCRIPTIONS = "quorate.store.rules.subscriptions"
SUBSCRIPTIONS_SLOWEST = Seam(SUBSCRIPTIONS, "Subscriptions.slowest")

WALK = "quorate.store.rules.walk"
WALK_END = Seam(WALK, "Walk._end")
WALK_GIVEN = Seam(WALK, "Walk.given")
WALK_IS_AHEAD = Seam(WALK, "Walk._is_ahead")
WALK_MISSING = Seam(WALK, "Walk.missing")
WALK_NEXT = Seam(WALK, "Walk._next")
WALK_PASSES = Seam(WALK, "Walk.passes")
WALK_TAKEN_BACK = Seam(WALK, "Walk.taken_back")

STORE_SERVICE = "quorate.store.rpc.service"
INVENTORY_IN_STORE_SERVICE = Seam(STORE_SERVICE, "inventory")
READ_IN_STORE_SERVICE = Seam(STORE_SERVICE, "read_rows")
SERVICE_FETCH = Seam(STORE_SERVICE, "Service.Fetch")

ACCEPTOR = "quorate.store.rules.acceptor"
DIVERGES_AT_IN_ACCEPTOR = Seam(ACCEPTOR, "diverges_at")
STORE_CORE_DOUBT_OF = Seam(ACCEPTOR, "StoreCore.doubt_of")
STORE_CORE_PROMISE = Seam(ACCEPTOR, "StoreCore.promise")

IDENTITIES = "quorate.store.rules.identities"
IDENTITIES_CAME = Seam(IDENTITIES, "Identities.came")
IDENTITIES_END_RECEIVER = Seam(IDENTITIES, "Identities.end_receiver")

LIFETIMES = "quorate.store.rules.lifetimes"
LIVES_OVERDUE = Seam(LIFETIMES, "Lives.overdue")
LIVES_SILENT = Seam(LIFETIMES, "Lives.silent")

TRACED = "quorate.receiver.traced"
TRACED_OPEN_MAX = Seam(TRACED, "_OPEN_MAX")

RECEIVERS = "quorate.store.rules.receivers"
FENCE_IN_RECEIVERS = Seam(RECEIVERS, "fence")
RECEIVERS_REGISTER = Seam(RECEIVERS, "Receivers.register")

REPAIR_PLAN = "quorate.store.rules.repair_plan"
REPAIR_PLAN_ERRANDS = Seam(REPAIR_PLAN, "errands")
REPAIR_PLAN_STABLE_UPTO = Seam(REPAIR_PLAN, "stable_upto")

RETENTION_RULES = "quorate.store.rules.retention"
RETENTION_RULES_CHOOSE = Seam(RETENTION_RULES, "choose")

SOURCE_STATE = "quorate.store.rules.source_state"
SOURCE_STATE_END_STREAM = Seam(SOURCE_STATE, "SourceState.end_stream")

STORE_IDENTITY = "quorate.store.rules.store_identity"
STANDING_BEGIN_CHECK = Seam(STORE_IDENTITY, "Standing.begin_check")
STANDING_CHECK_REMEMBERED = Seam(STORE_IDENTITY, "Standing.check_remembered")
STANDING_FOUNDERS = Seam(STORE_IDENTITY, "Standing.founders")

STORE_STREAM = "quorate.store.rules.stream"
SOURCE_STREAMS_FILL = Seam(STORE_STREAM, "SourceStreams.fill")

CLEAN_SHUTDOWN = "quorate.store.storage.clean_shutdown"
CLEAN_SHUTDOWN_BOOT_ID = Seam(CLEAN_SHUTDOWN, "boot_id")

ROCKSDB = "quorate.store.storage.rocksdb"
ROCKSDB_STATE_BUFFER = Seam(ROCKSDB, "STATE_BUFFER")
ROCKS_STORAGE_COMPACT = Seam(ROCKSDB, "RocksStorage.compact")
ROCKS_STORAGE_SYNC = Seam(ROCKSDB, "RocksStorage.sync")
ROCKS_STORAGE_WRITE = Seam(ROCKSDB, "RocksStorage.write")

COMPARISON = "quorate.store.tasks.comparison"
READ_IN_COMPARISON = Seam(COMPARISON, "read")

FETCHER = "quorate.store.tasks.fetcher"
FETCHER_STEP_BYTES = Seam(FETCHER, "_STEP_BYTES")
FETCHER_STEP_BYTES_BUSY = Seam(FETCHER, "_STEP_BYTES_BUSY")
FILLER_REST = Seam(FETCHER, "Filler.rest")

LIFECYCLE = "quorate.store.tasks.lifecycle"
KEEPER_LOOK_AT = Seam(LIFECYCLE, "Keeper._look_at")
LIFECYCLE_LOOK_SECONDS = Seam(LIFECYCLE, "LOOK_SECONDS")
MAY_EXPIRE_IN_LIFECYCLE = Seam(LIFECYCLE, "may_expire")

PEER_POLLING = "quorate.store.tasks.peer_polling"
PEERS_ASK_ABOUT = Seam(PEER_POLLING, "Peers.ask_about")
PEERS_PAUSE = Seam(PEER_POLLING, "Peers._pause")
PEERS_QUESTION = Seam(PEER_POLLING, "Peers._question")
PEER_POLLING_ANSWER_SECONDS_MAX = Seam(PEER_POLLING, "ANSWER_SECONDS_MAX")
PEER_POLLING_ROUND_SECONDS = Seam(PEER_POLLING, "ROUND_SECONDS")

PEER_VIEWS = "quorate.store.tasks.peer_views"
PEER_VIEWS_KEPT_SECONDS = Seam(PEER_VIEWS, "KEPT_SECONDS")
PEER_VIEWS_VIEW_OF = Seam(PEER_VIEWS, "view_of")

PROXY = "quorate.store.tasks.proxy"
PROXY_AWAY_SECONDS = Seam(PROXY, "AWAY_SECONDS")
PROXYING_LOOK_AT = Seam(PROXY, "Proxying._look_at")

READMISSION = "quorate.store.tasks.readmission"
LEAVE_IN_READMISSION = Seam(READMISSION, "leave")
READMISSION_CHECK_SECONDS_MAX = Seam(READMISSION, "CHECK_SECONDS_MAX")
READMISSION_FOUND_OUT_SECONDS = Seam(READMISSION, "FOUND_OUT_SECONDS")

REPORTS_WRITE_SOURCE = Seam("quorate.store.rpc.status", "Reports._write_source")

REPAIR = "quorate.store.tasks.repair"
REPAIR_ADOPT_ALL = Seam(REPAIR, "Repair._adopt_all")
REPAIR_COMPARE_SECONDS = Seam(REPAIR, "COMPARE_SECONDS")
REPAIR_MEND = Seam(REPAIR, "Repair._mend")
REPAIR_ROUND_SECONDS = Seam(REPAIR, "ROUND_SECONDS")
REPAIR_RUN_ERRANDS = Seam(REPAIR, "Repair._run_errands")

RETENTION = "quorate.store.tasks.retention"
RELEASING_COMPACT = Seam(RETENTION, "Releasing._compact")
RELEASING_LOOK_AT = Seam(RETENTION, "Releasing._look_at")
RELEASING_OBSERVED = Seam(RETENTION, "Releasing._observed")
RELEASING_ROUND = Seam(RETENTION, "Releasing.round")
RETENTION_COMPACT_SECONDS = Seam(RETENTION, "COMPACT_SECONDS")
RETENTION_ROUND_SECONDS = Seam(RETENTION, "ROUND_SECONDS")
RETENTION_SEARCH_SECONDS = Seam(RETENTION, "SEARCH_SECONDS")
RETENTION_STEP_BATCHES = Seam(RETENTION, "STEP_BATCHES")
TIME_IN_RETENTION = Seam(RETENTION, "time")

SCRUB = "quorate.store.tasks.scrub"
READ_IN_SCRUB = Seam(SCRUB, "read")
SCRUB_BYTES_PER_SECOND_MAX = Seam(SCRUB, "BYTES_PER_SECOND_MAX")
SCRUB_BYTES_PER_SECOND_MIN = Seam(SCRUB, "BYTES_PER_SECOND_MIN")
SCRUB_CHUNK_BATCHES_MAX = Seam(SCRUB, "_CHUNK_BATCHES_MAX")
SCRUB_SAVE_SECONDS = Seam(SCRUB, "SAVE_SECONDS")

# Of the source.

SOURCE_BATCHER = "quorate.source.io.batcher"
SOURCE_BATCHER_SYNC_SECONDS = Seam(SOURCE_BATCHER, "SYNC_SECONDS")
TIME_IN_SOURCE_BATCHER = Seam(SOURCE_BATCHER, "time")
SOURCE_BATCHER_PATIENCE_SECONDS = Seam(SOURCE_BATCHER, "_PATIENCE_SECONDS")

SOURCE_ENGINE = "quorate.source.io.engine"
SOURCE_ENGINE_STABLE_NEWS_SECONDS = Seam(SOURCE_ENGINE, "_STABLE_NEWS_SECONDS")
SOURCE_ENGINE_TICK_SECONDS = Seam(SOURCE_ENGINE, "_TICK_SECONDS")

CONFIRMATIONS = "quorate.source.protocol.confirmations"
CONFIRMATIONS_RECEIVERS_MAX = Seam(CONFIRMATIONS, "RECEIVERS_MAX")

LIVE_STREAM = "quorate.source.io.live_stream"
LIVE_STREAM_KEEPALIVES_DUE = Seam(LIVE_STREAM, "LiveStream.keepalives_due")

STORE_SESSION = "quorate.source.io.store_session"
STORE_SESSION_INIT = Seam(STORE_SESSION, "StoreSession.__init__")
DELAY_IN_STORE_SESSION = Seam(STORE_SESSION, "delay")

SOURCE_CORE = "quorate.source.protocol.core"
SOURCE_CORE_KNOWN = Seam(SOURCE_CORE, "SourceCore.known")
SOURCE_CORE_RELEASE = Seam(SOURCE_CORE, "SourceCore.release")

RECEIVER_PACING = "quorate.source.protocol.receiver_pacing"
RECEIVER_PACING_SIZES_MAX = Seam(RECEIVER_PACING, "SIZES_MAX")

SOURCE_REGISTRATION = "quorate.source.protocol.registration"
SOURCE_REGISTRATION_DECIDE = Seam(SOURCE_REGISTRATION, "Registration.decide")
NEWEST_BEGUN_IN_SOURCE_REGISTRATION = Seam(SOURCE_REGISTRATION, "newest_begun")
OF_GENERATION_IN_SOURCE_REGISTRATION = Seam(SOURCE_REGISTRATION, "of_generation")

PUBLISH_STORE = "quorate.source.publish_store.directory"
PUBLISH_STORE_BOOT_ID = Seam(PUBLISH_STORE, "_boot_id")
PUBLISH_STORE_ROOM_FIRST = Seam(PUBLISH_STORE, "_ROOM_FIRST")
PUBLISH_STORE_ROOM_MAX = Seam(PUBLISH_STORE, "_ROOM_MAX")

# Of the receiver.

RECEIVER_CURSOR = "quorate.receiver.cursor"
RECEIVER_CURSOR_COUNT = Seam(RECEIVER_CURSOR, "Cursor.count")

RECEIVER_ACKNOWLEDGE = "quorate.receiver.io.acknowledge"
ACKNOWLEDGER_FLUSH = Seam(RECEIVER_ACKNOWLEDGE, "Acknowledger.flush")
RECEIVER_ACKNOWLEDGE_REPEAT_SECONDS = Seam(RECEIVER_ACKNOWLEDGE, "REPEAT_SECONDS")

RECEIVER_FETCH = "quorate.receiver.io.fetch"
RECEIVER_FETCH_ANSWERS = Seam(RECEIVER_FETCH, "_ANSWERS")

JOINING_REJOIN = Seam("quorate.receiver.io.joining", "REJOIN")
SOURCE_SESSION = "quorate.receiver.io.source_session"
SOURCE_SESSION_FRAME_BYTES_MAX = Seam(SOURCE_SESSION, "FRAME_BYTES_MAX")
SOURCE_SESSION_HOUSEKEEPING_SECONDS = Seam(SOURCE_SESSION, "HOUSEKEEPING_SECONDS")
SOURCE_SESSION_STALLED_SECONDS = Seam(SOURCE_SESSION, "STALLED_SECONDS")

WATCH_DIRECTORY = "quorate.receiver.io.watch_directory"
DELAY_IN_WATCH_DIRECTORY = Seam(WATCH_DIRECTORY, "delay")
WATCH_DIRECTORY_PROTOCOL_VERSION = Seam(WATCH_DIRECTORY, "PROTOCOL_VERSION")

FETCH_PLAN = "quorate.receiver.protocol.fetch_plan"
FETCH_PLAN_CHUNK_MESSAGES_MAX = Seam(FETCH_PLAN, "CHUNK_MESSAGES_MAX")
FETCH_PLAN_GAP = Seam(FETCH_PLAN, "FetchPlan.gap")
FETCH_PLAN_NO_SECONDS = Seam(FETCH_PLAN, "NO_SECONDS")
FETCH_PLAN_POLL_SECONDS = Seam(FETCH_PLAN, "POLL_SECONDS")
FETCH_PLAN_POLL_SECONDS_QUIET = Seam(FETCH_PLAN, "POLL_SECONDS_QUIET")

RECEIVER_STREAM = "quorate.receiver.protocol.stream"
RECEIVER_STREAM_LIMIT = Seam(RECEIVER_STREAM, "Stream._limit")

RECEIVER = "quorate.receiver.receiver"
RECEIVER_OPEN = Seam(RECEIVER, "Receiver.open")

# Of the pipeline.

PIPELINE = "quorate.pipeline"
PIPELINE_SESSION = Seam(PIPELINE, "session")

ARCHIVING = "quorate.pipeline.archive.archiving"
ARCHIVING_FILE_BYTES_MAX = Seam(ARCHIVING, "FILE_BYTES_MAX")
ARCHIVING_PART_MESSAGES_MIN = Seam(ARCHIVING, "PART_MESSAGES_MIN")

ARCHIVE_TABLE = "quorate.archive.table"
ARCHIVE_TABLE_COMMIT = Seam(ARCHIVE_TABLE, "commit")
ARCHIVE_TABLE_GROUP_ROWS = Seam(ARCHIVE_TABLE, "GROUP_ROWS")
ARCHIVE_TABLE_VACUUM_SECONDS_MIN = Seam(ARCHIVE_TABLE, "VACUUM_SECONDS_MIN")

ARCHIVE_LOCATION = "quorate.archive.location"
ARCHIVE_LOCATION_SYNC = Seam(ARCHIVE_LOCATION, "Location.sync")

ARCHIVE_HISTORIES_TO_PARQUET = Seam("quorate.archive.histories", "to_parquet")

ARCHIVE_HISTORY = "quorate.archive.history"
ARCHIVE_HISTORY_RUNS_MAX = Seam(ARCHIVE_HISTORY, "RUNS_MAX")

ARCHIVE_FILE_WRITER = "quorate.pipeline.archive.file_writer"
FILE_WRITER_ROW_GROUP_ROWS = Seam(ARCHIVE_FILE_WRITER, "ROW_GROUP_ROWS")
FILE_WRITER_OPEN_MAX = Seam(ARCHIVE_FILE_WRITER, "OPEN_MAX")
FILE_WRITER_WAITING_BYTES = Seam(ARCHIVE_FILE_WRITER, "WAITING_BYTES")
FILE_WRITER_FINISH = Seam(ARCHIVE_FILE_WRITER, "FileWriter.finish")
ROWS_OF_IN_FILE_WRITER = Seam(ARCHIVE_FILE_WRITER, "rows_of")

ARCHIVE_TASKS = "quorate.pipeline.archive.tasks"
ARCHIVE_TASKS_ON_SPARK = Seam(ARCHIVE_TASKS, "on_spark")

AUDIT_ANSWERS = "quorate.pipeline.audit.answers"
AUDIT_ANSWERS_PROTOCOL_VERSION = Seam(AUDIT_ANSWERS, "PROTOCOL_VERSION")

AUDIT_TASKS = "quorate.pipeline.audit.tasks"
CALL_FETCH_IN_AUDIT_TASKS = Seam(AUDIT_TASKS, "call_fetch")

BACKTEST_JOB = "quorate.pipeline.jobs.backtest"
BACKTEST_JOB_WALL_CLOCK = Seam(BACKTEST_JOB, "WallClock")

JOBS_COMMAND = "quorate.pipeline.jobs.command"
JOBS_COMMAND_CHECK_TABLE = Seam(JOBS_COMMAND, "_check_table")
JOBS_COMMAND_RUN_ARCHIVE = Seam(JOBS_COMMAND, "run_archive")
JOBS_COMMAND_RUN_AUDIT = Seam(JOBS_COMMAND, "run_audit")
JOBS_COMMAND_RUN_BACKTEST = Seam(JOBS_COMMAND, "run_backtest")
JOBS_COMMAND_RUN_COMPACT = Seam(JOBS_COMMAND, "run_compact")
JOBS_COMMAND_RUN_RESTORE = Seam(JOBS_COMMAND, "run_restore")
JOBS_COMMAND_RUN_VACUUM = Seam(JOBS_COMMAND, "run_vacuum")
JOBS_COMMAND_RUN_STATS = Seam(JOBS_COMMAND, "run_stats")
JOBS_COMMAND_SESSION = Seam(JOBS_COMMAND, "_session")

RESTORE_JOB = "quorate.pipeline.jobs.restore"
RESTORE_JOB_PART_MESSAGES = Seam(RESTORE_JOB, "PART_MESSAGES")

PIPELINE_OPTIONS = "quorate.pipeline.options"
PIPELINE_OPTIONS_OPTIONS = Seam(PIPELINE_OPTIONS, "Options")

JAVA = "quorate.pipeline.spark.java"
JAVA_HOME_OF_PACKAGE = Seam(JAVA, "_home_of_package")

SPARK_SESSIONS = "quorate.pipeline.spark.sessions"
SPARK_SESSIONS_MADE = Seam(SPARK_SESSIONS, "_made")
SPARK_SESSIONS_PREPARE_PROCESS = Seam(SPARK_SESSIONS, "_prepare_process")

PIPELINE_CLIENT = "quorate.pipeline.stores.client"
PIPELINE_CLIENT_ARCHIVED_PLACES_MAX = Seam(PIPELINE_CLIENT, "ARCHIVED_PLACES_MAX")
PIPELINE_CLIENT_PROTOCOL_VERSION = Seam(PIPELINE_CLIENT, "PROTOCOL_VERSION")
STUB_OF_IN_PIPELINE_CLIENT = Seam(PIPELINE_CLIENT, "stub_of")
PIPELINE_CLIENT_TELL_ARCHIVED = Seam(PIPELINE_CLIENT, "Stores.tell_archived")

PIPELINE_FETCH = "quorate.pipeline.stores.fetch"
REPEAT_IN_PIPELINE_FETCH = Seam(PIPELINE_FETCH, "REPEAT")
PIPELINE_FETCH_TROUBLED = Seam(PIPELINE_FETCH, "_troubled")

LEFTOVERS = "quorate.pipeline.write.leftovers"
REPEAT_IN_LEFTOVERS = Seam(LEFTOVERS, "REPEAT")
STORE_STUB_IN_LEFTOVERS = Seam(LEFTOVERS, "StoreStub")

WRITE_OPTIONS = "quorate.pipeline.write.options"
OPTIONS_IN_WRITE_OPTIONS = Seam(WRITE_OPTIONS, "Options")

FETCH_IN_WRITING = Seam("quorate.pipeline.write.writing", "fetch")

WRITE_HELD_BYTES_MAX = Seam("quorate.pipeline.rules.resuming", "HELD_BYTES_MAX")

# Of the subscriber.

FOLLOWER = "quorate.subscriber.protocol.follower"
FOLLOWER_BEGINS_ANEW = Seam(FOLLOWER, "Follower._begins_anew")
FOLLOWER_CONSECUTIVE = Seam(FOLLOWER, "Follower.consecutive")

PROGRESS = "quorate.subscriber.protocol.progress"
PROGRESS_POSITION = Seam(PROGRESS, "Progress.position")

# Of the console.

BENCH_SOURCE_PROCESS = "quorate.console.bench.source_process"
BENCH_SOURCE_PROCESS_CLOCK = Seam(BENCH_SOURCE_PROCESS, "_clock")

CONFIRMATION = "quorate.console.ui.confirmation"
PEOPLE_WATCH_IN_CONFIRMATION = Seam(CONFIRMATION, "people_watch")

MOVE_SOURCE = Seam("quorate.console.group.change_watch", "move")

GROUP_DEREGISTRATION = "quorate.console.group.deregistration"
GROUP_DEREGISTRATION_ASK = Seam(GROUP_DEREGISTRATION, "_ask")
GROUP_DEREGISTRATION_CALL = Seam(GROUP_DEREGISTRATION, "_call")

GROUP_REPAIR = "quorate.console.group.repair"
GROUP_REPAIR_ACCEPT = Seam(GROUP_REPAIR, "accept")

GROUP_STATUS = "quorate.console.group.status"
GROUP_STATUS_ASK_ALL = Seam(GROUP_STATUS, "ask_all")

GUARD = "quorate.store.rpc.guard"
GUARD_CALLS = Seam(GUARD, "CALLS")

# Of the world that runs what ships.

STORAGE_IN_NODE = Seam(STORE_NODE, "RocksStorage")
WRITER_IN_NODE = Seam(STORE_NODE, "Writer")
CHECK_PORT_OF_NODE = Seam(STORE_NODE, "_check_port")
MEMORY_STORAGE_SYNC = Seam("quorate.store.storage.memory", "MemoryStorage.sync")
CHANCE_OF_DELAYS = Seam("quorate.transport.delays", "_CHANCE")

# Of queues.

QUEUE_TERM = "quorate.queue.io.term"
SNAPSHOT_AFTER = Seam(QUEUE_TERM, "_SNAPSHOT_AFTER")

LETTER_BYTES_MAX = Seam("quorate.queue.io.burial", "MESSAGE_BYTES_MAX")

DISPATCH = "quorate.queue.protocol.dispatch"
RESTORE = Seam(DISPATCH, "Dispatch.restore")
DECIDE = Seam(DISPATCH, "Dispatch.decide")
REMOVE_SETTLED = Seam(DISPATCH, "Dispatch._remove")
ARRIVED_SETTLED = Seam(DISPATCH, "Dispatch._arrived_settled")
RELEASE_OF_LEFT = Seam(DISPATCH, "Dispatch.leave")

TRACK = "quorate.queue.protocol.track"
TRACK_IS_KNOWN = Seam(TRACK, "Track._is_known")
TRACK_VOID_BEFORE = Seam(TRACK, "Track.void_before")
TRACK_SETTLE_ABSENT = Seam(TRACK, "Track.settle_absent")
TRACK_SNAPSHOT = Seam(TRACK, "Track.snapshot")
