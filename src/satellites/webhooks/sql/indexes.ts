/** Indexes for lists and counts of the admin API. They have no entries of deliveries that succeed at the first attempt. */

/** Failed, or with a failed attempt and unsettled. */
export const UNSUCCESSFUL = `(state in ('failed', 'retry_scheduled') or (state in ('pending', 'delivering') and attempt_count > 0))`

/** Of the indexes of ready deliveries, and of those that wait for a time. All pending deliveries and those in flight meet it. */
export const UNSETTLED = '(is_ready or (due_at is not null and not is_ready))'

interface Index {
  readonly name: string
  readonly table: string
  readonly rest: string
}

const INDEXES: readonly Index[] = [
  { name: 'unsuccessful', table: 'webhook_deliveries', rest: `(id, last_status) where ${UNSUCCESSFUL}` },
  {
    name: 'waiting_for_retry',
    table: 'webhook_deliveries',
    rest: `(webhook_id) where state = 'retry_scheduled' and not is_ready`,
  },
  { name: 'of_tenant', table: 'webhook_messages', rest: '(tenant_id, id) where audience is not null' },
  { name: 'undelivered', table: 'webhook_messages', rest: '(tenant_id) where is_undelivered' },
]

const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

/**
 * Builds the indexes of partitions with rows without a lock that blocks writers, then the index of the table, which takes them over. An
 * interrupted build leaves an invalid index, which a further run builds again.
 */
export const indexing: readonly string[] = INDEXES.flatMap(({ name, table, rest }) => {
  const ofPartitions = `from pg_inherits join pg_class c on c.oid = inhrelid
     where inhparent = 'multitenancy.${table}'::regclass and pg_relation_size(c.oid) > 0`
  return [
    `select format('drop index concurrently if exists multitenancy.%I', c.relname || '_${name}') as statement ${ofPartitions}
     and exists (select from pg_index i where i.indexrelid = to_regclass('multitenancy.' || quote_ident(c.relname || '_${name}')) and not i.indisvalid)`,
    `select format('create index concurrently if not exists %I on multitenancy.%I ', c.relname || '_${name}', c.relname) || ${literal(rest)} as statement ${ofPartitions}`,
    // Writers wait behind this lock, so it is not waited for long.
    `do $$ begin
      set local lock_timeout = '300ms';
      create index if not exists ${table}_${name} on ${table} ${rest};
    end $$`,
  ]
})
