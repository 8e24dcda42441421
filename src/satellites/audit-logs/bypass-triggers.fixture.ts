/** Changes the log as a superuser who can disable the triggers. */
import type { Audited } from './audited.fixture.ts'

const TABLES = ['audit_entries', 'audit_entries_others']

export async function bypassTriggers(
  { tenancy }: Pick<Audited, 'tenancy'>,
  text: string,
  values: unknown[] = [],
): Promise<void> {
  const { database } = tenancy.kernel
  await tenancy.transaction(async () => {
    for (const table of TABLES) await database.sql(`alter table multitenancy.${table} disable trigger all`)
    await database.sql(text, values)
    for (const table of TABLES) {
      await database.sql(`alter table multitenancy.${table} enable always trigger audit_entries_append_only`)
    }
  })
}
