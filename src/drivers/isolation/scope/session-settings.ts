/**
 * Determines the settings of tenant sessions. PostgreSQL lets every role change its own defaults
 * (`alter role current_user set ..`), and all tenants of a shared login would start with them. Values in the startup
 * packet take precedence over the defaults of roles and databases, and `reset` returns to them.
 *
 * Every setting that an ordinary role may change (`context = 'user'` in pg_settings) is in one class:
 *
 *   FIXED     one value, regardless of the server's configuration
 *   RESULTS   affects the meaning, result, log or success of a statement: the value of a session of `url`
 *   COST      affects the speed of a statement: the value of a session of `url`
 *   LEFT      is not sent, for the given reason
 *
 * A setting of a later version of PostgreSQL is sent like RESULTS and COST, and a test fails until it is classified. A
 * pooler in transaction mode accepts no settings at the start: there each scope sets FIXED, RESULTS and the configured
 * settings.
 */
import pg from 'pg'

/** pg_settings lists the settings of PL/pgSQL only after a session has used it. */
const FIXED: Readonly<Record<string, string>> = {
  search_path: 'pg_catalog',
  standard_conforming_strings: 'on',
  row_security: 'on',
  'plpgsql.check_asserts': 'on',
  'plpgsql.extra_errors': 'none',
  'plpgsql.extra_warnings': 'none',
  'plpgsql.print_strict_params': 'off',
}
/** They would start every session inside of a scope; pg_settings does not list them. */
const NOT_LISTED: Readonly<Record<string, string>> = { role: 'none', 'app.tenant_id': '' }

const RESULTS = `
  DateStyle IntervalStyle TimeZone array_nulls backslash_quote bytea_output client_min_messages default_table_access_method
  default_text_search_config exit_on_error extra_float_digits gin_fuzzy_search_limit idle_in_transaction_session_timeout
  lc_monetary lc_numeric lc_time lock_timeout log_parameter_max_length_on_error quote_all_identifiers
  restrict_nonsystem_relation_kind statement_timeout synchronous_commit temp_tablespaces transaction_timeout
  transform_null_equals xmlbinary xmloption`

/** Settings of RESULTS that take effect only at the start of a session or transaction: a scope sets them too late. */
const AT_START = `
  client_connection_check_interval default_transaction_deferrable default_transaction_isolation default_transaction_read_only
  idle_session_timeout local_preload_libraries tcp_keepalives_count tcp_keepalives_idle tcp_keepalives_interval tcp_user_timeout
  timezone_abbreviations`

const COST = `
  backend_flush_after commit_siblings constraint_exclusion cpu_index_tuple_cost cpu_operator_cost cpu_tuple_cost
  cursor_tuple_fraction debug_logical_replication_streaming debug_parallel_query debug_pretty_print
  debug_print_parse debug_print_plan debug_print_rewritten default_statistics_target effective_cache_size
  effective_io_concurrency enable_async_append enable_bitmapscan enable_distinct_reordering enable_gathermerge
  enable_group_by_reordering enable_hashagg enable_hashjoin enable_incremental_sort enable_indexonlyscan enable_indexscan
  enable_material enable_memoize enable_mergejoin enable_nestloop enable_parallel_append enable_parallel_hash
  enable_partition_pruning enable_partitionwise_aggregate enable_partitionwise_join enable_presorted_aggregate
  enable_self_join_elimination enable_seqscan enable_sort enable_tidscan escape_string_warning file_copy_method
  force_parallel_mode from_collapse_limit geqo geqo_effort geqo_generations geqo_pool_size geqo_seed geqo_selection_bias
  geqo_threshold gin_pending_list_limit hash_mem_multiplier io_combine_limit jit jit_above_cost jit_expressions
  jit_inline_above_cost jit_optimize_above_cost jit_tuple_deforming join_collapse_limit logical_decoding_work_mem
  maintenance_io_concurrency maintenance_work_mem max_parallel_maintenance_workers max_parallel_workers
  max_parallel_workers_per_gather min_parallel_index_scan_size min_parallel_table_scan_size parallel_leader_participation
  parallel_setup_cost parallel_tuple_cost plan_cache_mode random_page_cost recursive_worktable_factor seq_page_cost
  synchronize_seqscans temp_buffers trace_notify trace_sort vacuum_buffer_usage_limit wal_skip_threshold work_mem`

const NO_VACUUM = 'read only by VACUUM, which tenants cannot run'
const NO_ROLES = 'read only by CREATE ROLE and ALTER ROLE'
const NO_TABLES = 'read only by DDL, and tenants have at most temporary tables'
const OF_TRANSACTION = 'each transaction starts with its default'

/** Each with the reason. */
export const LEFT: Readonly<Record<string, string>> = {
  application_name: 'sent in a separate parameter',
  client_encoding: 'sent in a separate parameter',
  transaction_deferrable: OF_TRANSACTION,
  transaction_isolation: OF_TRANSACTION,
  transaction_read_only: OF_TRANSACTION,
  createrole_self_grant: NO_ROLES,
  md5_password_warnings: NO_ROLES,
  password_encryption: NO_ROLES,
  scram_iterations: NO_ROLES,
  check_function_bodies: NO_TABLES,
  default_tablespace: NO_TABLES,
  default_toast_compression: NO_TABLES,
  icu_validation_level: NO_TABLES,
  vacuum_cost_delay: NO_VACUUM,
  vacuum_cost_limit: NO_VACUUM,
  vacuum_cost_page_dirty: NO_VACUUM,
  vacuum_cost_page_hit: NO_VACUUM,
  vacuum_cost_page_miss: NO_VACUUM,
  vacuum_failsafe_age: NO_VACUUM,
  vacuum_freeze_min_age: NO_VACUUM,
  vacuum_freeze_table_age: NO_VACUUM,
  vacuum_max_eager_freeze_failure_rate: NO_VACUUM,
  vacuum_multixact_failsafe_age: NO_VACUUM,
  vacuum_multixact_freeze_min_age: NO_VACUUM,
  vacuum_multixact_freeze_table_age: NO_VACUUM,
  vacuum_truncate: NO_VACUUM,
  stats_fetch_consistency: 'read only by the statistics views',
  wal_sender_timeout: 'read only by replication',
}

const namesIn = (text: string): string[] => text.trim().split(/\s+/)

/** Those that a scope cannot set at all. default_transaction_* are set as modes of the transaction. */
const NOT_OF_SCOPE = new Set(namesIn(AT_START).filter((name) => !name.startsWith('default_transaction_')))

const OF_SCOPE = new Set([...namesIn(RESULTS), ...Object.keys(FIXED)].map((name) => name.toLowerCase()))

/** Every classified name, once. Older and later versions of PostgreSQL have only some of them. */
export const DECIDED: readonly string[] = [
  ...Object.keys(FIXED),
  ...[RESULTS, AT_START, COST].flatMap(namesIn),
  ...Object.keys(LEFT),
]

export const SETTING_NAME = /^[a-z][a-z0-9_.]*$/i

interface GivenSettings {
  /** By name. */
  readonly settings?: Readonly<Record<string, string>> | undefined
  readonly pooler?: boolean | undefined
}

/**
 * Errors in the configured settings of a placement: an invalid name, a fixed value, or a setting without effect behind
 * a pooler.
 */
export function settingFaults({ settings = {}, pooler = false }: GivenSettings): string[] {
  return Object.keys(settings).flatMap((name) => {
    if (!SETTING_NAME.test(name)) return [`settings: "${name}" is not the name of a setting`]
    const isFixed = Object.hasOwn({ ...FIXED, ...NOT_LISTED }, name.toLowerCase())
    if (pooler && NOT_OF_SCOPE.has(name.toLowerCase())) {
      return [`settings.${name}: has no effect behind a pooler: set it in the configuration of the server`]
    }
    return isFixed ? [`settings.${name}: isolation depends on this setting, and its value is fixed; remove it`] : []
  })
}

/** Settings of tenant sessions, by name. */
export type SessionSettings = ReadonlyMap<string, string>

/**
 * @param client of the owner, after its start: its values come from the server, the placement's database and the role
 * of `url`, never from the login of tenants
 * @param given configured values, which take precedence
 */
export async function readSessionSettings(
  client: pg.ClientBase,
  given: Readonly<Record<string, string>> = {},
): Promise<SessionSettings> {
  const { rows } = await client.query(
    `select name, reset_val as value from pg_catalog.pg_settings where context = 'user' and name <> all($1)`,
    [Object.keys(LEFT)],
  )
  const ofServer: [string, string][] = rows.map(({ name, value }) => [name, value ?? ''])
  const configured = new Map(Object.entries(given).map(([name, value]) => [name.toLowerCase(), value]))
  const settings = [...ofServer, ...Object.entries(FIXED), ...Object.entries(NOT_LISTED)]
  return new Map([...settings.map(([name, value]) => [name.toLowerCase(), value] as const), ...configured])
}

/** The settings as `options` of the startup packet: words in which a backslash escapes a space. */
export const startupOptions = (settings: SessionSettings): string =>
  [...settings].map(([name, value]) => `-c ${name}=${value.replace(/[\\\s]/g, '\\$&')}`).join(' ')

/** Adds the settings to the URL. The URL's `options` come after them and take precedence. */
export function withSettings(url: string, settings: SessionSettings): string {
  const changed = new URL(url)
  const own = changed.searchParams.get('options')
  changed.searchParams.set('options', [startupOptions(settings), ...(own ? [own] : [])].join(' '))
  return changed.href
}

/** Additional settings that a scope sets behind a pooler. */
export interface PooledSettings {
  /** Access mode and isolation level; sent before the scope's statement, as nothing may have been read before. */
  readonly modes: readonly string[]
  /** True conditions in the scope's statement; they set only values that differ. */
  readonly conditions: string
}

/**
 * @param given configured values: always set, regardless of their class
 * @returns SQL that sets them for one transaction
 */
export function pooledSettings(
  settings: SessionSettings,
  given: Readonly<Record<string, string>> = {},
): PooledSettings {
  const names = new Set([...OF_SCOPE, ...Object.keys(given).map((name) => name.toLowerCase())])
  const assignments = [...settings]
    .filter(([name]) => names.has(name) && name !== 'search_path')
    .concat([['client_encoding', 'UTF8']])
  return {
    modes: ['read_only', 'isolation', 'deferrable'].map(
      (mode) => `set transaction_${mode} = ${pg.escapeLiteral(settings.get(`default_transaction_${mode}`) ?? 'off')}`,
    ),
    conditions: assignments
      .map(([name, value]) => [pg.escapeLiteral(name), pg.escapeLiteral(value)])
      .map(
        ([name, value]) =>
          `(current_setting(${name}, true) = ${value} or set_config(${name}, ${value}, true) is not null)`,
      )
      .join(' and '),
  }
}
