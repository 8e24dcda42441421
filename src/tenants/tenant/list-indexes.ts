/** Indexes of the filters and orders of lists over all tenants. Created outside of a transaction: tenants and transfers may change meanwhile. */

const INDEXES: Readonly<Record<string, string>> = {
  tenants_name_page: 'tenants (name, id) where purged_at is null',
  tenants_updated_page: 'tenants (updated_at desc, id desc) where purged_at is null',
  tenants_plan_page: `tenants ((metadata->>'plan'), created_at desc, id desc) where purged_at is null`,
  tenants_isolation_page: 'tenants (isolation, created_at desc, id desc) where purged_at is null',
  tenants_placement_page: 'tenants (placement, created_at desc, id desc) where purged_at is null',
  tenants_maintenance_page: 'tenants (created_at desc, id desc) where maintenance is not null and purged_at is null',
  // With the operators of jsonb_ops, a value is found without its key.
  tenants_metadata:
    'tenants using gin (metadata jsonb_ops) with (gin_pending_list_limit = 256) where purged_at is null',
  // Conditions of the attention list, which few rows have.
  tenants_suspended: `tenants (suspended_at) where status = 'suspended' and purged_at is null`,
  tenants_in_maintenance: `tenants ((maintenance->>'since')) where maintenance is not null and purged_at is null`,
  transfers_failed: `transfers (finished_at) where state = 'failed'`,
  transfers_newest: 'transfers (created_at desc, id desc)',
  // Most transfers are completed backups, which are read in the order of the page.
  transfers_state_page: `transfers (state, created_at desc, id desc) where state <> 'completed'`,
  transfers_kind_page: `transfers (kind, created_at desc, id desc) where kind <> 'backup'`,
  transfers_placement_page: 'transfers (placement, created_at desc, id desc)',
}

/** Each may run again after an interruption, which leaves an invalid index. */
export const LIST_INDEXES: readonly string[] = [
  ...Object.entries(INDEXES).flatMap(([name, definition]) => [
    `drop index concurrently if exists ${name}`,
    `create index concurrently ${name} on ${definition}`,
  ]),
  'analyze tenants',
]
