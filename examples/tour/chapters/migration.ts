import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { customers } from '../customers.ts'
import { expectThat } from '../expectations.ts'
import { act, heading } from '../print.ts'
import type { Tour } from './chapter.ts'

const SECOND = '0002_pinned'

/** What `tenant:migrate` reports, as far as it is looked at here. */
interface Report {
  readonly done: number
  readonly total: number
}

export async function migration({ service, tenancy }: Tour): Promise<void> {
  heading('Migrate all of them: the next release of the host has another column')
  await copyFile(join(import.meta.dirname, `../${SECOND}.sql`), join(service.migrations, `${SECOND}.sql`))

  const { done } = (await service.command('tenant:migrate')) as Report
  act('tenantry tenant:migrate', `${SECOND} in ${done} tenants, beside the running service`)
  expectThat(done === customers.length, 'every tenant is migrated')

  const again = (await service.command('tenant:migrate')) as Report
  act('tenantry tenant:migrate', again.total === 0 ? 'nothing left to do' : 'something left to do')
  expectThat(again.total === 0, 'a second run finds nothing to do')

  const { db } = await tenancy.tenant('sakura-foods')
  await db.updateTable('notes').set({ pinned: true }).where('id', '=', 1).execute()
  const pinned = await db.selectFrom('notes').select('title').where('pinned', '=', true).execute()
  act('sakura-foods: select title from notes where pinned', `${pinned.length} row: ${pinned[0]?.title}`)
  expectThat(pinned.length === 1, 'the new column is there')
}
