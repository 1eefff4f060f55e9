"""How a lane's RocksDB is set up, and the memory that all of a process share."""

from __future__ import annotations

from typing import Final

from rocksdict import (
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    WriteBufferManager,
)

OPEN_FILES_MAX: Final = 64
"""Descriptors of one lane; at least six are in use even by an empty one."""
MEMTABLE_BYTES: Final = 16 * 1024 * 1024
"""Of one lane at most; all lanes together stay under the write buffer of `Resources`."""
ARENA_BYTES: Final = 256 * 1024
"""What a memtable grows by: small, for a worker may have a hundred lanes that hardly write."""
BLOCK_BYTES: Final = 16 * 1024
MESSAGES_BYTES_MAX: Final = 256 * 1024


class Resources:
    """Memory that all stores of a process share: block cache and write buffers, in bytes.

    Both are limits: together they bound what RocksDB takes, but for about 0.3 MB a lane.
    """

    def __init__(self, cache_bytes: int, write_buffer_bytes: int) -> None:
        self._cache = Cache(cache_bytes)
        # Without stalls: over the limit RocksDB flushes early, it does not make a turn wait.
        self._buffers = WriteBufferManager(write_buffer_bytes, allow_stall=False)

    def options(self) -> Options:
        """Options of one lane's store."""
        blocks = BlockBasedOptions()
        blocks.set_block_cache(self._cache)
        blocks.set_block_size(BLOCK_BYTES)
        blocks.set_format_version(5)
        # Else every open file would keep its index outside of the cache and its limit.
        blocks.set_cache_index_and_filter_blocks(True)
        blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)

        options = Options(raw_mode=True)
        options.create_if_missing(create_if_missing=True)
        options.set_block_based_table_factory(blocks)
        options.set_write_buffer_manager(self._buffers)
        options.set_write_buffer_size(MEMTABLE_BYTES)
        options.set_arena_block_size(ARENA_BYTES)
        options.set_compression_type(DBCompressionType.lz4())
        options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
        options.set_allow_concurrent_memtable_write(allow=False)  # There is one writer.
        options.set_max_open_files(OPEN_FILES_MAX)
        options.set_max_background_jobs(2)
        options.set_manifest_preallocation_size(ARENA_BYTES)
        options.set_keep_log_file_num(2)
        options.set_max_log_file_size(MESSAGES_BYTES_MAX)
        options.set_stats_dump_period_sec(0)
        options.set_stats_persist_period_sec(0)
        return options
