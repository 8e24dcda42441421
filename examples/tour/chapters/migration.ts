import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { customers } from '../customers.ts'
import { expectThat } from '../expectations.ts'
import { act, heading } from '../print.ts'
import type { Tour } from './chapter.ts'

const SECOND = '0002_pinned'

/** Members of the report of `tenant:migrate` that the tour uses. */
interface Report {
  readonly done: number
  readonly total: number
}

export async function migration({ service, tenancy }: Tour): Promise<void> {
  heading('Migrate all tenants: the next release of the host has another column')
  await copyFile(join(import.meta.dirname, `../${SECOND}.sql`), join(service.migrations, `${SECOND}.sql`))

  const { done } = (await service.command('tenant:migrate')) as Report
  act('tenantry tenant:migrate', `${SECOND} in ${done} tenants, while the service runs`)
  expectThat(done === customers.length, 'every tenant is migrated')

  const again = (await service.command('tenant:migrate')) as Report
  act('tenantry tenant:migrate', again.total === 0 ? 'no pending migrations' : 'pending migrations')
  expectThat(again.total === 0, 'a second run has no pending migrations')

  const { db } = await tenancy.tenant('sakura-foods')
  await db.updateTable('notes').set({ pinned: true }).where('id', '=', 1).execute()
  const pinned = await db.selectFrom('notes').select('title').where('pinned', '=', true).execute()
  act('sakura-foods: select title from notes where pinned', `${pinned.length} row: ${pinned[0]?.title}`)
  expectThat(pinned.length === 1, 'the new column exists')
}
